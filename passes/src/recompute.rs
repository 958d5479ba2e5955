//! What passes share that compute values again at another place: which values are kept, how the others are written, and what keeps the computation where it is.

pub(crate) mod bits;
pub(crate) mod body;
pub(crate) mod counted_loop;
pub(crate) mod cut;
pub(crate) mod emit;
pub(crate) mod insertion_point;
pub(crate) mod row_loop;
pub(crate) mod tie;
