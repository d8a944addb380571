//! Text that shows the fields of reports. Some of their texts come from other processes and are not trusted.

use std::{
    io::{self, Write},
    time::{Duration, SystemTime},
};

use indicatif::HumanDuration;
use serde_json::Value;
use verimount_host::one_line;

/// Fields with moments, in seconds since 1970, whose age is shown.
const MOMENTS: [&str; 3] = ["at", "loaded", "since"];

/// Prints the lines of a template, each of which comes after the path of what it is about and a bar: of several things, each has a
/// line. Fields are in braces; a line without all of them is left out, and so is a part of it in brackets. With an exclamation
/// mark before its name, a field must be missing.
pub(crate) fn print(out: &mut impl Write, template: &str, told: &Value) -> io::Result<()> {
    let lines = template.lines().filter_map(|line| line.split_once('|'));
    let mut lines = lines.flat_map(|(path, line)| {
        let about = objects(told, path).into_iter();
        about.filter_map(move |object| filled(line, object))
    });
    lines.try_for_each(|line| writeln!(out, "{line}"))
}

/// The objects in a field, given by the names on the way to it: any number if a list is on the way.
pub(crate) fn objects<'f>(fields: &'f Value, path: &str) -> Vec<&'f Value> {
    let names = path.split('.').filter(|name| !name.is_empty());
    names.fold(vec![fields], |found, name| {
        let inner = found.into_iter().filter_map(|object| object.get(name));
        let inner = inner.flat_map(|inner| match inner {
            Value::Array(list) => list.iter().collect(),
            one => vec![one],
        });
        inner.filter(|inner| inner.is_object()).collect()
    })
}

/// A line with the values of its fields; `None` if one is missing.
fn filled(line: &str, object: &Value) -> Option<String> {
    if let Some((before, rest)) = line.split_once('[')
        && let Some((part, after)) = rest.split_once(']')
    {
        let part = filled(part, object).unwrap_or_default();
        return Some(filled(before, object)? + &part + &filled(after, object)?);
    }
    let mut parts = line.split(['{', '}']);
    let mut text = parts.next()?.to_owned();
    while let (Some(field), Some(plain)) = (parts.next(), parts.next()) {
        text += &value(object, field)?;
        text += plain;
    }
    Some(text)
}

/// The value of a field. It is empty for what is so, and for what has fields of its own; missing for what is not. After an
/// exclamation mark, it is empty for what is missing, and the other way round.
fn value(object: &Value, field: &str) -> Option<String> {
    if let Some(other) = field.strip_prefix('!') {
        return value(object, other).is_none().then(String::new);
    }
    let value = field
        .split('.')
        .try_fold(object, |object, name| object.get(name))?;
    match value {
        Value::Number(moment) if MOMENTS.contains(&field) => {
            Some(age(moment.as_u64()?).to_string())
        }
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(one_line(text).to_string()),
        Value::Bool(true) | Value::Object(_) => Some(String::new()),
        _ => None,
    }
}

/// The time since a moment, which is in seconds since 1970.
fn age(moment: u64) -> HumanDuration {
    let moment = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(moment));
    let since = moment.and_then(|moment| moment.elapsed().ok());
    HumanDuration(since.unwrap_or_default())
}
