//! `defmt::Format` for types that are not declared by a macro.

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
    [] crate::diagram::Activity;
    [] crate::diagram::Diagram;
    [] crate::diagram::Lane;
    [] crate::diagram::Style;
    [] crate::owned::Heap;
    [T: core::fmt::Debug] crate::owned::List<T>;
    [T: core::fmt::Debug] crate::owned::Multi<T>;
    [] crate::frame::Piece;
    [] crate::frame::Splitter;
}

#[cfg(feature = "digest")]
formatted_by_debug! {
    [] crate::DigestId<'_>;
}

impl defmt::Format for crate::Xid {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "Xid({=i32})", self.0);
    }
}

/// Shows no byte, as `Debug` does.
impl defmt::Format for crate::Password {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "Password");
    }
}

impl<'a, T: Copy + crate::Decode<'a> + defmt::Format> defmt::Format for crate::List<'a, T> {
    fn format(&self, f: defmt::Formatter<'_>) {
        if self.is_null() {
            return defmt::write!(f, "null");
        }
        defmt::write!(f, "[");
        self.iter().for_each(|item| defmt::write!(f, "{}, ", item));
        defmt::write!(f, "]");
    }
}

impl<'a, T: crate::DecodeMultiItem<'a> + defmt::Format> defmt::Format for crate::Multi<'a, T> {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "[");
        self.iter().for_each(|item| defmt::write!(f, "{}, ", item));
        defmt::write!(f, "]");
    }
}
