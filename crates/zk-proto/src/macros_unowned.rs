//! Without the feature `alloc`, records have no owned forms, and no generators.

macro_rules! owned_as_itself {
    ($($type:ty),*) => {};
}

macro_rules! generated {
    ($($declared:tt)*) => {};
}
