//! A body with gaps, cut into pieces once so that filling it is nothing but copying.

/// One body shape, ready to be filled.
#[derive(Debug)]
pub(super) struct Template {
    pieces: Vec<Piece>,
    /// What to reserve for a filled body.
    bytes: usize,
}

#[derive(Debug)]
enum Piece {
    Text(String),
    Slot(Slot),
}

/// A gap in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// `{{prefix@scope}}` or `{{prefix@scope*length}}`: an id, the same wherever prefix and scope are.
    Id { prefix: String, scope: Scope, length: usize },
    /// `{{name}}`: a fact of the event.
    Fact(Fact),
}

/// What an id belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Event,
    Order,
    Customer,
    Shop,
}

/// The facts a template can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    Amount,
    ApiVersion,
    City,
    Country,
    Created,
    CreatedText,
    Currency,
    Email,
    Line1,
    Livemode,
    Locale,
    Mode,
    Name,
    Note,
    OrderCreated,
    Pending,
    PeriodEnd,
    Plan,
    PostalCode,
    ShopCreated,
    State,
    Uuid,
}

/// As many characters has a Stripe id behind its prefix.
const ID_TAIL_LENGTH: usize = 24;

impl Template {
    /// Cuts `text`, after putting in the `words` that are fixed for a type.
    ///
    /// # Panics
    ///
    /// If a gap has no known name: the templates are part of this crate, and a test fills them all.
    pub(super) fn parse(text: &str, words: &[(&str, &str)]) -> Self {
        let mut text = text.to_owned();
        for (name, word) in words {
            text = text.replace(&format!("{{{{{name}}}}}"), word);
        }
        let mut pieces = Vec::new();
        let mut rest = text.as_str();
        while let Some((before, behind)) = rest.split_once("{{") {
            let (name, behind) = behind.split_once("}}").expect("every gap is closed");
            pieces.push(Piece::Text(before.to_owned()));
            pieces.push(Piece::Slot(Slot::parse(name)));
            rest = behind;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Self { pieces, bytes: text.len() + text.len() / 4 }
    }

    /// The text with every gap filled by `fill`.
    pub(super) fn fill(&self, mut fill: impl FnMut(&Slot, &mut String)) -> String {
        let mut out = String::with_capacity(self.bytes);
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Slot(slot) => fill(slot, &mut out),
            }
        }
        out
    }
}

impl Slot {
    fn parse(name: &str) -> Self {
        let Some((prefix, scope)) = name.split_once('@') else { return Self::Fact(Fact::parse(name)) };
        let (scope, length) = match scope.split_once('*') {
            Some((scope, length)) => (scope, length.parse().expect("a length is a number")),
            None => (scope, ID_TAIL_LENGTH - prefix.split_once('_').map_or(0, |(_, digits)| digits.len())),
        };
        let scope = match scope {
            "event" => Scope::Event,
            "order" => Scope::Order,
            "customer" => Scope::Customer,
            "shop" => Scope::Shop,
            other => panic!("no scope is called {other}"),
        };
        Self::Id { prefix: prefix.to_owned(), scope, length }
    }
}

impl Fact {
    fn parse(name: &str) -> Self {
        match name {
            "amount" => Self::Amount,
            "api_version" => Self::ApiVersion,
            "city" => Self::City,
            "country" => Self::Country,
            "created" => Self::Created,
            "created_text" => Self::CreatedText,
            "currency" => Self::Currency,
            "email" => Self::Email,
            "line1" => Self::Line1,
            "livemode" => Self::Livemode,
            "locale" => Self::Locale,
            "mode" => Self::Mode,
            "name" => Self::Name,
            "note" => Self::Note,
            "order_created" => Self::OrderCreated,
            "pending" => Self::Pending,
            "period_end" => Self::PeriodEnd,
            "plan" => Self::Plan,
            "postal_code" => Self::PostalCode,
            "shop_created" => Self::ShopCreated,
            "state" => Self::State,
            "uuid" => Self::Uuid,
            other => panic!("no fact is called {other}"),
        }
    }
}
