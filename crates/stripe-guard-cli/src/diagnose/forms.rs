//! One JSON text as different programs write it.

use std::fmt::{self, Write as _};

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A JSON text in another form.
pub(super) struct Form {
    /// What sets it apart, to follow "the same JSON".
    pub(super) name: String,
    /// The text.
    pub(super) bytes: Vec<u8>,
}

/// Every form of a JSON text; none when it is no JSON.
pub(super) fn all(body: &[u8]) -> impl Iterator<Item = Form> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    let tree = serde_json::from_slice::<Node>(body).ok();
    tree.into_iter().flat_map(|tree| {
        Order::ALL.iter().flat_map(move |order| {
            let ordered = tree.clone().ordered(*order);
            Layout::ALL.iter().flat_map(move |layout| {
                let ordered = ordered.clone();
                Escapes::ALL.iter().map(move |escapes| {
                    let mut text = String::new();
                    Writer { layout: *layout, escapes: *escapes, text: &mut text }.node(&ordered, 0);
                    let name = format!("{}{}{}", layout.name(), order.name(), escapes.name());
                    Form { name, bytes: text.into_bytes() }
                })
            })
        })
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    AsIs,
    /// As Stripe writes objects: `id` and `object` first, then by name.
    Stripe,
    Sorted,
}

impl Order {
    const ALL: &[Self] = &[Self::AsIs, Self::Stripe, Self::Sorted];

    fn name(self) -> &'static str {
        match self {
            Self::AsIs => "",
            Self::Stripe => ", with id and object first",
            Self::Sorted => ", with sorted keys",
        }
    }

    fn rank(self, key: &str) -> u8 {
        match (self, key) {
            (Self::Stripe, "id") => 0,
            (Self::Stripe, "object") => 1,
            _ => 2,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    Indented(&'static str),
    Compact,
    Spaced,
}

impl Layout {
    const ALL: &[Self] =
        &[Self::Indented("  "), Self::Compact, Self::Spaced, Self::Indented("    "), Self::Indented("\t")];

    fn name(self) -> &'static str {
        match self {
            Self::Indented("  ") => "indented by two spaces, as Stripe sends it",
            Self::Indented("\t") => "indented by tabs",
            Self::Indented(_) => "indented by four spaces",
            Self::Compact => "without white space",
            Self::Spaced => "in one line with spaces",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Escapes {
    Few,
    Ascii,
    AsciiAndSlash,
    Html,
}

impl Escapes {
    const ALL: &[Self] = &[Self::Few, Self::Ascii, Self::AsciiAndSlash, Self::Html];

    fn name(self) -> &'static str {
        match self {
            Self::Few => "",
            Self::Ascii => ", with letters beyond ASCII escaped",
            Self::AsciiAndSlash => ", with letters beyond ASCII and slashes escaped",
            Self::Html => ", with < > & escaped",
        }
    }
}

/// JSON with the order of its keys.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    /// A number, `true`, `false` or `null`, as it is written.
    Word(String),
    Text(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    fn ordered(self, order: Order) -> Self {
        match self {
            Self::List(items) => Self::List(items.into_iter().map(|item| item.ordered(order)).collect()),
            Self::Object(pairs) => {
                let mut pairs: Vec<_> = pairs.into_iter().map(|(key, value)| (key, value.ordered(order))).collect();
                if order != Order::AsIs {
                    pairs.sort_by(|(a, _), (b, _)| (order.rank(a), a).cmp(&(order.rank(b), b)));
                }
                Self::Object(pairs)
            }
            other => other,
        }
    }
}

struct Writer<'t> {
    layout: Layout,
    escapes: Escapes,
    text: &'t mut String,
}

impl Writer<'_> {
    fn node(&mut self, node: &Node, depth: usize) {
        match node {
            Node::Word(word) => self.text.push_str(word),
            Node::Text(text) => self.string(text),
            Node::List(items) if items.is_empty() => self.text.push_str("[]"),
            Node::Object(pairs) if pairs.is_empty() => self.text.push_str("{}"),
            Node::List(items) => {
                self.text.push('[');
                for (index, item) in items.iter().enumerate() {
                    self.separate(index, depth + 1);
                    self.node(item, depth + 1);
                }
                self.close(depth, ']');
            }
            Node::Object(pairs) => {
                self.text.push('{');
                for (index, (key, value)) in pairs.iter().enumerate() {
                    self.separate(index, depth + 1);
                    self.string(key);
                    self.text.push_str(if self.layout == Layout::Compact { ":" } else { ": " });
                    self.node(value, depth + 1);
                }
                self.close(depth, '}');
            }
        }
    }

    fn separate(&mut self, index: usize, depth: usize) {
        if index > 0 {
            self.text.push(',');
        }
        match self.layout {
            Layout::Indented(unit) => self.line(unit, depth),
            Layout::Spaced if index > 0 => self.text.push(' '),
            Layout::Spaced | Layout::Compact => {}
        }
    }

    fn close(&mut self, depth: usize, bracket: char) {
        if let Layout::Indented(unit) = self.layout {
            self.line(unit, depth);
        }
        self.text.push(bracket);
    }

    fn line(&mut self, unit: &str, depth: usize) {
        self.text.push('\n');
        (0..depth).for_each(|_| self.text.push_str(unit));
    }

    fn string(&mut self, text: &str) {
        self.text.push('"');
        text.chars().for_each(|c| self.letter(c));
        self.text.push('"');
    }

    fn letter(&mut self, c: char) {
        let ascii = matches!(self.escapes, Escapes::Ascii | Escapes::AsciiAndSlash);
        match c {
            '"' => self.text.push_str("\\\""),
            '\\' => self.text.push_str("\\\\"),
            '\n' => self.text.push_str("\\n"),
            '\r' => self.text.push_str("\\r"),
            '\t' => self.text.push_str("\\t"),
            '\u{8}' => self.text.push_str("\\b"),
            '\u{c}' => self.text.push_str("\\f"),
            '/' if self.escapes == Escapes::AsciiAndSlash => self.text.push_str("\\/"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if self.escapes == Escapes::Html => self.escaped(c),
            _ if c.is_ascii_control() && c != '\u{7f}' => self.escaped(c),
            _ if ascii && !c.is_ascii() => self.escaped(c),
            _ => self.text.push(c),
        }
    }

    fn escaped(&mut self, c: char) {
        for unit in c.encode_utf16(&mut [0; 2]) {
            write!(self.text, "\\u{unit:04x}").expect("a String takes any text");
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Word(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Word(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Word(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Word(serde_json::Value::from(value).to_string()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Word("null".to_owned()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Node, A::Error> {
        let mut object = Vec::new();
        while let Some(pair) = pairs.next_entry()? {
            object.push(pair);
        }
        Ok(Node::Object(object))
    }
}
