//! `WWW-Authenticate`: what a registry wants to know before it answers.

use http_auth::{ChallengeRef, parser::ChallengeParser};
use ureq::http::{HeaderMap, header::WWW_AUTHENTICATE};

/// How a registry wants to be told who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    /// By user and password.
    Basic,
    /// By a token, which another server gives.
    Bearer {
        /// The URL of that server.
        realm: String,
        /// What it calls the registry.
        service: Option<String>,
    },
}

impl Challenge {
    /// The one that is answered, of those in the head of an answer.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let texts = headers.get_all(WWW_AUTHENTICATE).iter();
        let texts = texts.filter_map(|text| text.to_str().ok());
        // What follows something malformed is not understood.
        let all = texts.flat_map(|text| ChallengeParser::new(text).map_while(Result::ok));
        let all: Vec<_> = all.filter_map(|one| Self::new(&one)).collect();
        let token = all.iter().find(|one| matches!(one, Self::Bearer { .. }));
        token.or(all.first()).cloned()
    }

    fn new(one: &ChallengeRef<'_>) -> Option<Self> {
        let value = |wanted: &str| {
            let mut found = one.params.iter();
            found
                .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
                .map(|(_, value)| value.to_unescaped())
        };
        if one.scheme.eq_ignore_ascii_case("bearer") {
            return Some(Self::Bearer {
                realm: value("realm")?,
                service: value("service"),
            });
        }
        one.scheme
            .eq_ignore_ascii_case("basic")
            .then_some(Self::Basic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> Option<Challenge> {
        let mut headers = HeaderMap::new();
        for text in texts {
            headers.append(WWW_AUTHENTICATE, text.parse().unwrap());
        }
        Challenge::of(&headers)
    }

    fn bearer(realm: &str, service: Option<&str>) -> Option<Challenge> {
        Some(Challenge::Bearer {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
        })
    }

    #[test]
    fn challenges_are_understood() {
        let docker = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push""#;
        assert_eq!(
            of(&[docker]),
            bearer("https://auth.docker.io/token", Some("registry.docker.io"))
        );
        assert_eq!(of(&["bearer realm=a , scope = \"b,c\""]), bearer("a", None));
        assert_eq!(of(&["Basic realm=\"x\""]), Some(Challenge::Basic));
        assert_eq!(of(&["Basic"]), Some(Challenge::Basic));
        let both = "Basic realm=\"x, y\", Bearer Realm=\"a\\\"b\"";
        assert_eq!(of(&[both]), bearer("a\"b", None));
        assert_eq!(of(&["Basic", "Bearer realm=a"]), bearer("a", None));
        assert_eq!(of(&["Negotiate", "Basic"]), Some(Challenge::Basic));
    }

    #[test]
    fn other_texts_are_no_challenges() {
        for text in [
            "",
            ",",
            "Bearer",
            "Bearer service=a",
            "realm=a",
            "Digest realm=a",
            "=",
            "\"\"",
        ] {
            assert_eq!(of(&[text]), None, "{text}");
        }
        assert_eq!(of(&["Bearer realm=\"never ends"]), None);
        assert_eq!(of(&["Bearer realm=\"ends\\"]), None);
        assert_eq!(of(&[]), None);
    }
}
