//! The tests of this crate in one program, which is linked once.
//!
//! `cargo test -p hlo-ir --test all messages::` runs those of `messages.rs`. `tests/house/pins.rs` checks that no file is missing here.

mod corpus;
mod external;
mod generated;
mod graph;
mod inferred;
mod limits;
mod messages;
mod probes;
mod proto;
mod styles;
mod user_lines;
