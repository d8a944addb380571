//! The fields of a status, which text and metrics show by their names in JSON.

use serde_json::{Value, json};
use verimount_host::mounts::Status;

/// The fields of a status, without those of memory that there is not.
pub(super) fn fields(status: &Status) -> serde_json::Result<Value> {
    let mut fields = serde_json::to_value(status)?;
    if fields.pointer("/origin/fetch_memory_limit") == Some(&json!(0)) {
        fields["origin"]["fetch_memory"] = Value::Null;
        fields["origin"]["fetch_memory_limit"] = Value::Null;
    }
    Ok(fields)
}

/// The objects in a field, given by the names on the way to it: any number if a list is on the way.
pub(super) fn objects<'f>(fields: &'f Value, path: &str) -> Vec<&'f Value> {
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
