//! `defmt::Format` for the types that need no code of their own.

formatted_by_debug! {
    [] crate::CheckedItems<'_>;
    [] crate::Reader<'_>;
    [] crate::SliceSink<'_>;
    [] crate::ZnodePath<'_>;
    [] crate::explain::Field<'_>;
    [] crate::explain::FieldLayout;
    [] crate::explain::FieldPath<'_>;
    [] crate::explain::Layout;
    [] crate::explain::MessageKind;
}

#[cfg(feature = "alloc")]
formatted_by_debug! {
    [] crate::ListReader;
    [] crate::conversation::Conversation;
    [] crate::conversation::Direction;
    [] crate::conversation::End;
    [] crate::conversation::Kind;
    [] crate::conversation::Message<'_>;
    [] crate::conversation::Transcript<'_>;
    [] crate::owned::Heap;
    [T: core::fmt::Debug] crate::owned::List<T>;
    [T: core::fmt::Debug] crate::owned::Multi<T>;
}

#[cfg(feature = "bytes")]
formatted_by_debug! {
    [] crate::frame::Piece;
    [] crate::frame::Splitter;
}

#[cfg(feature = "alloc")]
formatted_by_debug! {
    [] crate::diagram::Activity;
    [] crate::diagram::Diagram;
    [] crate::diagram::Lane;
    [] crate::diagram::Style;
}

#[cfg(feature = "digest")]
formatted_by_debug! {
    [] crate::DigestId<'_>;
}
