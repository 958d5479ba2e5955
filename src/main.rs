//! The hlo-opt command.
fn main() {}
