//! A dissector for Wireshark, made from the declarations that also decode and explain messages.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use zk_proto::explain::{Explain, Layout};
use zk_proto::{
    ConnectRequest, ConnectResponse, ErrorCode, EventType, MultiHeader, OpCode, ReplyHeader,
    RequestHeader, WatcherEvent, keeper,
};

/// The part that is the same for every protocol.
const PROGRAM: &str = include_str!("dissector.lua");

/// Returns the dissector, a program in Lua.
pub(crate) fn dissector() -> String {
    PROGRAM.replace("--TABLES--\n", &tables())
}

#[derive(Default)]
struct Tables {
    /// The fields of each record, in Lua.
    records: BTreeMap<&'static str, String>,
    /// The names of numbers, with the name of their table.
    names: Vec<(&'static [(i32, &'static str)], String)>,
    /// The record of each operation in each kind of multi.
    multis: BTreeMap<String, String>,
}

fn tables() -> String {
    let mut tables = Tables::default();
    for (layout, name) in [
        (OpCode::LAYOUT, "OpCode"),
        (ErrorCode::LAYOUT, "ErrorCode"),
        (EventType::LAYOUT, "EventType"),
    ] {
        if let Layout::Value { names, .. } = *layout {
            tables.names.push((names, name.to_owned()));
        }
    }
    for layout in [
        ConnectRequest::LAYOUT,
        ConnectResponse::LAYOUT,
        RequestHeader::LAYOUT,
        ReplyHeader::LAYOUT,
        MultiHeader::LAYOUT,
        WatcherEvent::LAYOUT,
    ] {
        tables.body(layout, "");
    }
    let (mut requests, mut responses) = (String::new(), String::new());
    for opcode in OpCode::KNOWN {
        let bodies = match keeper::layouts(*opcode) {
            Some(layouts) => layouts.map(Some),
            None => [opcode.request_layout(), opcode.response_layout()],
        };
        for (layout, (out, table)) in
            bodies.into_iter().zip([(&mut requests, "requests"), (&mut responses, "responses")])
        {
            let Some(layout) = layout else { continue };
            let body = tables.body(layout, &format!("{opcode}.{table}"));
            let _ = writeln!(out, "{table}[{}] = {body:?} -- {opcode}", opcode.0);
        }
    }
    let mut out = String::new();
    for (values, name) in &tables.names {
        let _ = write!(out, "names.{name} = {{");
        for (number, name) in *values {
            let _ = write!(out, " [{number}] = {name:?},");
        }
        out += " }\n";
    }
    for (name, fields) in &tables.records {
        let _ = writeln!(out, "records[{name:?}] = {{{fields} }}");
    }
    for (name, items) in &tables.multis {
        let _ = writeln!(out, "multis[{name:?}] = {{{items} }}");
    }
    out + &requests + &responses
}

impl Tables {
    /// Adds the tables of a body, and returns its name. `multi` is the name of a multi.
    fn body(&mut self, layout: &'static Layout, multi: &str) -> String {
        match *layout {
            Layout::Record { name, .. } => {
                self.value(layout, "");
                name.to_owned()
            }
            Layout::Multi(items) => {
                let mut out = String::new();
                for (opcode, layout) in items {
                    let body = self.body(layout, "");
                    let _ = write!(out, " [{}] = {body:?},", opcode.0);
                }
                self.multis.insert(multi.to_owned(), out);
                multi.to_owned()
            }
            _ => String::new(),
        }
    }

    /// Adds the tables of a value, and returns what a field of it has behind its name, in Lua.
    fn value(&mut self, layout: &'static Layout, field: &str) -> String {
        match *layout {
            Layout::Value { wire_type, is_nullable, names } => {
                let kind = match wire_type {
                    "long" if field.contains("zxid") || field.starts_with("session_id") => "id",
                    "long" if field == "ephemeral_owner" => "id",
                    "long" if field == "ctime" || field == "mtime" => "time",
                    "ustring" if is_nullable => "nullable_ustring",
                    other => other,
                };
                match names {
                    // Almost all xids are ordinary numbers.
                    _ if field == "xid" => format!("{kind:?}"),
                    [] => format!("{kind:?}"),
                    names => format!("{kind:?}, nil, {:?}", self.names(names)),
                }
            }
            Layout::Optional(Layout::Value { wire_type, .. }) => format!("\"{wire_type}?\""),
            Layout::Record { name, fields } => {
                if !self.records.contains_key(name) {
                    let mut out = String::new();
                    for field in fields {
                        let value = self.value(field.layout, field.name);
                        let _ = write!(out, " {{ {:?}, {value} }},", field.name);
                    }
                    self.records.insert(name, out);
                }
                format!("\"record\", {name:?}")
            }
            Layout::Vector(item) => match *item {
                Layout::Record { name, .. } => {
                    self.value(item, "");
                    format!("\"vector\", {name:?}")
                }
                _ => format!("\"vector\", {}", self.value(item, "")),
            },
            _ => "\"buffer\"".to_owned(),
        }
    }

    fn names(&mut self, names: &'static [(i32, &'static str)]) -> String {
        let known = self.names.iter().find(|(known, _)| *known == names);
        if let Some((_, name)) = known {
            return name.clone();
        }
        let name = format!("Names{}", self.names.len());
        self.names.push((names, name.clone()));
        name
    }
}
