use std::fmt::Debug;

use tracing::{
    Event,
    callsite::Identifier,
    field::{Field, Visit},
};

/// Lines that are limited together: those of one place in the code, and if they name a user and a rule of
/// a policy, only those that name the same ones. So no user can use up the lines of others.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LineKind {
    place: Identifier,
    pub(super) uid: Option<u64>,
    /// The rule that denied or audited something.
    pub(super) rule: Option<String>,
}

impl LineKind {
    pub(super) fn of(event: &Event<'_>) -> Self {
        let mut kind = Self {
            place: event.metadata().callsite(),
            uid: None,
            rule: None,
        };
        event.record(&mut kind);
        kind
    }
}

impl Visit for LineKind {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "uid" {
            self.uid = Some(value);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "rule" {
            self.rule = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "rule" {
            self.rule = Some(format!("{value:?}"));
        }
    }
}

/// The text of an event, without its fields.
pub(super) fn message(event: &Event<'_>) -> String {
    struct Message(String);
    impl Visit for Message {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            if field.name() == "message" {
                self.0 = format!("{value:?}");
            }
        }
    }
    let mut message = Message(String::new());
    event.record(&mut message);
    message.0
}
