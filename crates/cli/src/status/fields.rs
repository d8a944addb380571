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
