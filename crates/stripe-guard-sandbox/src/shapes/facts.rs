//! What fills the gaps: everything is a function of the seed and the event's number.

use std::fmt::Write as _;
use std::time::Duration;

use stripe_guard_core::Timestamp;

use super::template::{Fact, Scope, Slot};
use crate::rng::{Rng, mix};

/// The version that the bodies are written in.
pub const API_VERSION: &str = "2026-10-28.endive";

/// What an event's body is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) seed: u64,
    pub(super) number: u64,
    pub(super) order: u64,
    pub(super) customer: u64,
    pub(super) created: Timestamp,
    pub(super) order_created: Timestamp,
    pub(super) livemode: bool,
    pub(super) pending: u32,
}

struct Person {
    name: &'static str,
    email: &'static str,
    line1: &'static str,
    city: &'static str,
    state: &'static str,
    postal_code: &'static str,
    country: &'static str,
    currency: &'static str,
    locale: &'static str,
    note: &'static str,
    plans: [(&'static str, &'static str); 3],
}

const PLANS_JPY: [(&str, &str); 3] = [("スターター", "1100"), ("プロ", "3300"), ("チーム", "15000")];
const PLANS_USD: [(&str, &str); 3] = [("Starter", "900"), ("Pro", "2900"), ("Team", "12000")];

/// All made up.
const PEOPLE: [Person; 4] = [
    Person {
        name: "山田 太郎",
        email: "yamada.test@example.jp",
        line1: "架空町1-2-3",
        city: "千代田区",
        state: "東京都",
        postal_code: "100-0000",
        country: "JP",
        currency: "jpy",
        locale: "ja",
        note: "テスト用の顧客（架空）",
        plans: PLANS_JPY,
    },
    Person {
        name: "Test Buyer",
        email: "test-buyer@example.com",
        line1: "1 Example Street",
        city: "Springfield",
        state: "OR",
        postal_code: "00000",
        country: "US",
        currency: "usd",
        locale: "en",
        note: "Made-up customer",
        plans: PLANS_USD,
    },
    Person {
        name: "鈴木 花子",
        email: "suzuki.test@example.jp",
        line1: "見本通り4-5",
        city: "大阪市",
        state: "大阪府",
        postal_code: "530-0000",
        country: "JP",
        currency: "jpy",
        locale: "ja",
        note: "年払いから変更 ☕",
        plans: PLANS_JPY,
    },
    Person {
        name: "Zoë Müßig",
        email: "zoe.test@example.de",
        line1: "Musterstraße 7",
        city: "Köln",
        state: "NW",
        postal_code: "50000",
        country: "DE",
        currency: "eur",
        locale: "de",
        note: "“Quoted” & café",
        plans: PLANS_USD,
    },
];

const MONTH: Duration = Duration::from_hours(30 * 24);

impl Facts {
    /// Writes what belongs into a gap.
    pub(super) fn fill(&self, slot: &Slot, out: &mut String) {
        match slot {
            Slot::Id { prefix, scope, length } => {
                out.push_str(prefix);
                let number = match scope {
                    Scope::Event => self.number,
                    Scope::Order => self.order,
                    Scope::Customer => self.customer,
                    Scope::Shop => 0,
                };
                push_tail(out, mix(self.seed ^ salt(prefix), number), *length);
            }
            Slot::Fact(fact) => self.fill_fact(*fact, out),
        }
    }

    fn fill_fact(&self, fact: Fact, out: &mut String) {
        let person = &PEOPLE[usize::from(self.customer.to_le_bytes()[0]) % PEOPLE.len()];
        let (plan, amount) = person.plans[usize::from(mix(self.seed, self.customer).to_le_bytes()[0]) % 3];
        match fact {
            Fact::Amount => out.push_str(amount),
            Fact::ApiVersion => out.push_str(API_VERSION),
            Fact::City => out.push_str(person.city),
            Fact::Country => out.push_str(person.country),
            Fact::Created => push_number(out, self.created.as_secs()),
            Fact::CreatedText => push(out, self.created),
            Fact::Currency => out.push_str(person.currency),
            Fact::Email => out.push_str(person.email),
            Fact::Line1 => out.push_str(person.line1),
            Fact::Livemode => out.push_str(if self.livemode { "true" } else { "false" }),
            Fact::Locale => out.push_str(person.locale),
            Fact::Mode => out.push_str(if self.livemode { "live" } else { "test" }),
            Fact::Name => out.push_str(person.name),
            Fact::Note => out.push_str(person.note),
            Fact::OrderCreated => push_number(out, self.order_created.as_secs()),
            Fact::Pending => push_number(out, self.pending),
            Fact::PeriodEnd => push_number(out, self.order_created.plus(MONTH).as_secs()),
            Fact::Plan => out.push_str(plan),
            Fact::PostalCode => out.push_str(person.postal_code),
            Fact::ShopCreated => push_number(out, self.order_created.minus(12 * MONTH).as_secs()),
            Fact::State => out.push_str(person.state),
            Fact::Uuid => {
                let mut rng = Rng::new(mix(self.seed ^ salt("uuid"), self.number));
                let (a, b) = (rng.next_u64(), rng.next_u64());
                let (a1, a2, a3) = (a >> 32, (a >> 16) & 0xffff, a & 0xfff);
                push(out, format_args!("{a1:08x}-{a2:04x}-4{a3:03x}-a{:03x}-{:012x}", b >> 52, b & 0xffff_ffff_ffff));
            }
        }
    }
}

fn push(out: &mut String, value: impl std::fmt::Display) {
    write!(out, "{value}").expect("a String takes any text");
}

fn push_number(out: &mut String, number: impl Into<i64>) {
    push(out, number.into());
}

/// Makes ids with different prefixes differ (FNV-1a).
fn salt(prefix: &str) -> u64 {
    prefix
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3))
}

/// The letters of an id. Its first eleven hold all of `number`, so that ids of at least eleven
/// are unique by construction and not by luck.
fn push_tail(out: &mut String, number: u64, length: usize) {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut rng = Rng::new(number);
    let mut left = number;
    for at in 0..length {
        if at > 0 && at % 11 == 0 {
            left = rng.next_u64();
        }
        let letter = usize::try_from(left % 62).unwrap_or(0);
        out.push(char::from(LETTERS[letter]));
        left /= 62;
    }
}
