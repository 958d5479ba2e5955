//! The hlo-opt library.
