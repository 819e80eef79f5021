//! Reading what an event says of itself, and nothing else: no JSON tree, no copy of the body.
//!
//! Reading is lenient. Only an id and a type make an event; a field of an unexpected kind counts
//! as absent, because Stripe may change what it sends ("upgrades" page) and an event must not be
//! refused for it.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::event::words;
use crate::{EventId, EventType, Timestamp};

words! {
    /// The shape of an event's body.
    Form {
        /// A v1 event with `data.object`.
        Snapshot = "snapshot",
        /// A v2 notification, which names an object and does not hold it.
        Thin = "thin",
        /// An event wrapped by a cloud bus.
        Envelope = "envelope",
    }
}

/// What an event says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Stripe's id of the event.
    pub id: EventId,
    /// Its type.
    pub event_type: EventType,
    /// The shape of the body.
    pub form: Form,
    /// When Stripe made it. Whole seconds in a snapshot; never used to order events.
    pub created: Option<Timestamp>,
    /// Live or test; early thin events do not say.
    pub livemode: Option<bool>,
    /// The connected account it happened on.
    pub account: Option<String>,
    /// The account, or path of accounts, that Stripe's `Stripe-Context` header takes.
    pub context: Option<String>,
    /// The API version the body is written in.
    pub api_version: Option<String>,
    /// The id of the object it is about.
    pub object_id: Option<String>,
    /// The customer it is about.
    pub customer: Option<String>,
}

/// Reads the envelope of a body; `None` when the body is no event.
///
/// A byte-order mark is skipped, and bytes that are not UTF-8 outside the fields read here do no
/// harm.
pub fn read(body: &[u8]) -> Option<Envelope> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    if let Ok(fields) = serde_json::from_slice::<Fields<'_>>(body) {
        return fields.into_envelope();
    }
    match String::from_utf8_lossy(body) {
        Cow::Borrowed(_) => None,
        Cow::Owned(mended) => serde_json::from_str::<Fields<'_>>(&mended).ok()?.into_envelope(),
    }
}

/// The fields of one level, whichever level it is: event, `data`, or the object.
#[derive(Default)]
struct Fields<'a> {
    id: Option<Cow<'a, str>>,
    object_name: Option<Cow<'a, str>>,
    object: Option<Box<Fields<'a>>>,
    event_type: Option<Cow<'a, str>>,
    created: Option<Timestamp>,
    livemode: Option<bool>,
    account: Option<Cow<'a, str>>,
    context: Option<Cow<'a, str>>,
    api_version: Option<Cow<'a, str>>,
    customer: Option<Cow<'a, str>>,
    data: Option<Box<Fields<'a>>>,
    detail: Option<Box<Fields<'a>>>,
    related_object: Option<Box<Fields<'a>>>,
    has_bus_mark: bool,
}

impl Fields<'_> {
    fn into_envelope(self) -> Option<Envelope> {
        // EventBridge wraps under `detail`, Event Grid (CloudEvents) under `data`.
        if self.has_bus_mark {
            let inner = self.detail.or(self.data)?;
            return Some(Envelope { form: Form::Envelope, ..inner.into_envelope()? });
        }
        let form = match (self.object_name.as_deref(), &self.data) {
            (Some("v2.core.event"), _) | (_, None) => Form::Thin,
            (_, Some(_)) => Form::Snapshot,
        };
        let object = match form {
            Form::Thin => self.related_object,
            Form::Snapshot | Form::Envelope => self.data.and_then(|data| data.object),
        };
        let customer = object.as_ref().and_then(|object| match object.object_name.as_deref() {
            Some("customer") => object.id.as_deref(),
            _ => object.customer.as_deref(),
        });
        Some(Envelope {
            id: EventId::parse(self.id.as_deref()?).ok()?,
            event_type: EventType::parse(self.event_type.as_deref()?).ok()?,
            form,
            created: self.created,
            livemode: self.livemode,
            account: name(self.account.as_deref()),
            context: name(self.context.as_deref()),
            api_version: name(self.api_version.as_deref()),
            object_id: name(object.as_ref().and_then(|object| object.id.as_deref())),
            customer: name(customer),
        })
    }
}

/// A name worth keeping beside the body: what an id may be, too.
fn name(text: Option<&str>) -> Option<String> {
    text.filter(|text| EventId::parse(text).is_ok()).map(str::to_owned)
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Level;

        impl<'de> Visitor<'de> for Level {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Fields::default();
                while let Some(key) = map.next_key::<Key>()? {
                    match key {
                        Key::Id => fields.id = map.next_value::<Value<'de>>()?.into_text(),
                        Key::Object => match map.next_value::<Value<'de>>()? {
                            Value::Text(text) => fields.object_name = Some(text),
                            Value::Level(level) => fields.object = Some(level),
                            _ => {}
                        },
                        Key::Type => fields.event_type = map.next_value::<Value<'de>>()?.into_text(),
                        Key::Created => fields.created = map.next_value::<Value<'de>>()?.into_time(),
                        Key::Livemode => fields.livemode = map.next_value::<Value<'de>>()?.into_flag(),
                        Key::Account => fields.account = map.next_value::<Value<'de>>()?.into_text(),
                        Key::Context => fields.context = map.next_value::<Value<'de>>()?.into_text(),
                        Key::ApiVersion => fields.api_version = map.next_value::<Value<'de>>()?.into_text(),
                        Key::Customer => fields.customer = map.next_value::<Value<'de>>()?.into_text_or_id(),
                        Key::Data => fields.data = map.next_value::<Value<'de>>()?.into_level(),
                        Key::Detail => fields.detail = map.next_value::<Value<'de>>()?.into_level(),
                        Key::RelatedObject => fields.related_object = map.next_value::<Value<'de>>()?.into_level(),
                        Key::BusMark => {
                            fields.has_bus_mark = true;
                            map.next_value::<IgnoredAny>()?;
                        }
                        Key::Other => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(fields)
            }
        }

        deserializer.deserialize_map(Level)
    }
}

enum Key {
    Id,
    Object,
    Type,
    Created,
    Livemode,
    Account,
    Context,
    ApiVersion,
    Customer,
    Data,
    Detail,
    RelatedObject,
    BusMark,
    Other,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;

        impl Visitor<'_> for Name {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_str<E>(self, name: &str) -> Result<Key, E> {
                Ok(match name {
                    "id" => Key::Id,
                    "object" => Key::Object,
                    "type" => Key::Type,
                    "created" => Key::Created,
                    "livemode" => Key::Livemode,
                    "account" => Key::Account,
                    "context" => Key::Context,
                    "api_version" => Key::ApiVersion,
                    "customer" => Key::Customer,
                    "data" => Key::Data,
                    "detail" => Key::Detail,
                    "related_object" => Key::RelatedObject,
                    "detail-type" | "specversion" => Key::BusMark,
                    _ => Key::Other,
                })
            }
        }

        deserializer.deserialize_identifier(Name)
    }
}

/// A value of any kind: what is of no use here is read over.
enum Value<'a> {
    Text(Cow<'a, str>),
    Number(i64),
    Flag(bool),
    Level(Box<Fields<'a>>),
    Other,
}

impl<'a> Value<'a> {
    fn into_text(self) -> Option<Cow<'a, str>> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// Stripe writes a related object as its id, or whole when the sender expanded it.
    fn into_text_or_id(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Text(text) => Some(text),
            Self::Level(level) => level.id,
            _ => None,
        }
    }

    /// Unix seconds in a snapshot, RFC 3339 in a thin event.
    fn into_time(self) -> Option<Timestamp> {
        match self {
            Self::Number(secs) => Some(Timestamp::from_secs(secs)),
            Self::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    fn into_flag(self) -> Option<bool> {
        if let Self::Flag(flag) = self { Some(flag) } else { None }
    }

    fn into_level(self) -> Option<Box<Fields<'a>>> {
        if let Self::Level(level) = self { Some(level) } else { None }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Value<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Value<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Value::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Value::Text(Cow::Owned(text.to_owned())))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
                Ok(Value::Number(number))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
                Ok(i64::try_from(number).map_or(Value::Other, Value::Number))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
                Ok(Value::Other)
            }

            fn visit_bool<E>(self, flag: bool) -> Result<Self::Value, E> {
                Ok(Value::Flag(flag))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Value::Other)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Value::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let level = Fields::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
                Ok(Value::Level(Box::new(level)))
            }
        }

        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object_of(body: &str) -> Option<String> {
        read(body.as_bytes()).unwrap().object_id
    }

    #[test]
    fn a_body_without_id_or_type_is_no_event() {
        for body in [
            "",
            "{}",
            "[]",
            "null",
            "evt_1",
            r#"{"id":"evt_1"}"#,
            r#"{"type":"x"}"#,
            r#"{"id":1,"type":"x"}"#,
            r#"{"id":"","type":"x"}"#,
            r#"{"id":"evt_1","type":"x""#,
        ] {
            assert_eq!(read(body.as_bytes()), None, "{body}");
        }
    }

    #[test]
    fn fields_of_unexpected_kinds_count_as_absent() {
        let body = r#"{"id":"evt_1","type":"x","created":[1,{"a":2}],"livemode":"yes","account":{"id":1},"api_version":7,"data":"none"}"#;
        let envelope = read(body.as_bytes()).unwrap();
        assert_eq!(
            (envelope.created, envelope.livemode, envelope.account, envelope.api_version),
            (None, None, None, None)
        );
    }

    #[test]
    fn the_last_of_two_equal_keys_counts_as_in_other_parsers() {
        assert_eq!(read(br#"{"id":"evt_1","id":"evt_2","type":"x"}"#).unwrap().id.as_str(), "evt_2");
    }

    #[test]
    fn a_byte_order_mark_and_stray_bytes_do_no_harm() {
        assert!(read(b"\xEF\xBB\xBF{\"id\":\"evt_1\",\"type\":\"x\"}").is_some());
        assert!(read(b"{\"id\":\"evt_1\",\"type\":\"x\",\"data\":{\"object\":{\"name\":\"\xFF\"}}}").is_some());
    }

    #[test]
    fn an_expanded_customer_is_read_as_its_id() {
        let body = r#"{"id":"evt_1","type":"x","data":{"object":{"id":"in_1","customer":{"id":"cus_1","object":"customer"}}}}"#;
        assert_eq!(read(body.as_bytes()).unwrap().customer.as_deref(), Some("cus_1"));
        assert_eq!(object_of(body).as_deref(), Some("in_1"));
    }

    #[test]
    fn deep_nesting_is_read_over_without_recursion() {
        let deep = format!(
            r#"{{"id":"evt_1","type":"x","data":{{"object":{{"id":"a_1","deep":{}1{}}}}}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        assert_eq!(object_of(&deep).as_deref(), Some("a_1"));
    }
}
