//! Records that borrow nothing.
//!
//! Each borrowing record has an owned form with the same name, the same fields and the same
//! encoding. The parameter [`Storage`] determines where it keeps strings and buffers: [`Heap`]
//! copies them, and `Bytes` shares the memory of the frame.
//!
//! Use an owned record to keep a message, to send it to another thread, or to generate one.
//!
//! ```
//! use zk_proto::{GetDataResponse, Stat, owned::{self, IntoOwned}};
//!
//! let reply = GetDataResponse { data: Some(b"10.0.0.7"), stat: Stat::default() };
//! let kept: owned::GetDataResponse = reply.into_owned();
//! assert_eq!(kept.data, Some(b"10.0.0.7".to_vec()));
//! ```
//!
//! Records that borrow nothing, such as [`Stat`](crate::Stat), have no second form.

pub(crate) mod list;
pub(crate) mod multi;
pub(crate) mod storage;

pub use self::list::List;
pub use self::multi::*;
pub use self::storage::{Heap, IntoOwned, Storage};
pub use crate::connect::owned::*;
pub use crate::operations::owned::*;
pub use crate::records::owned::*;

formatted_by_debug! {
    [] Heap;
    [T: core::fmt::Debug] List<T>;
    [T: core::fmt::Debug] Multi<T>;
}
