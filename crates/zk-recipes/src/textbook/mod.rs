//! The locks of textbooks, which wake all who wait: to be compared with the others, not used.

mod herd;
#[cfg(feature = "blocking")]
pub(crate) mod recipe;
pub(crate) mod simple;

#[cfg(test)]
mod tests;

pub use self::herd::HerdContender;
pub use self::simple::SimpleContender;

zk_session::proto::formatted_by_debug! {
    [] HerdContender;
    [] SimpleContender;
}
