//! `WWW-Authenticate`: what a registry wants to know before it answers.

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
        let all: Vec<_> = texts
            .filter_map(|text| text.to_str().ok())
            .flat_map(parse)
            .collect();
        let token = all.iter().find(|one| matches!(one, Self::Bearer { .. }));
        token.or(all.first()).cloned()
    }

    fn new(scheme: &str, parameters: &[(&str, String)]) -> Option<Self> {
        let value = |wanted: &str| {
            let mut found = parameters.iter();
            found
                .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
                .map(|(_, value)| value.clone())
        };
        match scheme.to_ascii_lowercase().as_str() {
            "basic" => Some(Self::Basic),
            "bearer" => Some(Self::Bearer {
                realm: value("realm")?,
                service: value("service"),
            }),
            _ => None,
        }
    }
}

/// The challenges in one header: each is a scheme with parameters, and commas are between all of them.
fn parse(text: &str) -> Vec<Challenge> {
    let mut rest = Rest(text);
    let mut challenges = Vec::new();
    let mut current: Option<(&str, Vec<(&str, String)>)> = None;
    while let Some(word) = rest.word() {
        let Some(value) = rest.value() else {
            challenges.extend(current.replace((word, Vec::new())));
            continue;
        };
        let Some((_, parameters)) = &mut current else {
            // A parameter of nothing.
            break;
        };
        parameters.push((word, value));
    }
    challenges.extend(current);
    let known = challenges.iter();
    known
        .filter_map(|(scheme, parameters)| Challenge::new(scheme, parameters))
        .collect()
}

/// What is left of a header.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    /// The next word; `None` at the end, and if there is something else.
    fn word(&mut self) -> Option<&'a str> {
        self.0 = self.0.trim_start_matches([' ', '\t', ',']);
        let is_word = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        let end = self.0.find(|c| !is_word(c)).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }

    /// The value, if an equals sign follows.
    fn value(&mut self) -> Option<String> {
        self.0 = self.0.trim_start().strip_prefix('=')?.trim_start();
        match self.0.strip_prefix('"') {
            Some(quoted) => self.quoted(quoted),
            None => {
                let end = self.0.find([' ', '\t', ',']).unwrap_or(self.0.len());
                let (value, rest) = self.0.split_at(end);
                self.0 = rest;
                Some(value.to_owned())
            }
        }
    }

    /// The value that begins after a quotation mark.
    fn quoted(&mut self, quoted: &'a str) -> Option<String> {
        let mut value = String::new();
        let mut characters = quoted.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.0 = &quoted[at + 1..];
                    return Some(value);
                }
                '\\' => value.push(characters.next()?.1),
                other => value.push(other),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use verimount_testkit::Random;

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
    fn any_text_comes_to_an_end() {
        let pieces = [
            "Bearer", "realm", "=", "\"", "\\", ",", " ", "Basic", "é", "\t", "(", "x",
        ];
        let mut random = Random::new(1);
        for _ in 0..10_000 {
            let count = random.below(12);
            let picked = (0..count).map(|_| pieces[random.below(pieces.len())]);
            let text: String = picked.collect();
            // Each challenge takes at least a word.
            assert!(parse(&text).len() <= count, "{text}");
        }
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
