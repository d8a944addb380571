//! A status as text. Its texts come from the process that serves the directory and are not trusted.

use std::io::{self, Write};

use serde_json::{Value, json};
use verimount::Pin;
use verimount_host::{
    mounts::{ImageStatus, Kind, Status},
    sandbox::Held,
};

use super::fields::fields;
use crate::template;

/// The first version of Landlock that holds back connections.
const LANDLOCK_WITH_NETWORK: u32 = 4;

/// The [template](template) of all statuses.
const TEXT: &str = "\
|source         {source}
|kind           {kind}
|pinned by      {pin}
|served by      process {daemon.pid}, for {since}
|sandbox        {sandbox}
policy|policy         {file}, loaded {loaded} ago
policy.failure|RELOAD FAILED  {at} ago: {reason}
policy|{failure}               the old policy, loaded {loaded} ago, is still in force
|digest         {digest}
|mode           {mode}
|size           {size} bytes[ in sectors of {block_size}]
|verified       {bytes_verified} bytes
|verified       {bytes_read} bytes
|written        {bytes_written} bytes
|data requests  {data_requests}
|tree requests  {tree_requests} of {tree_bytes} bytes in all
origin|received       {bytes_received} bytes by {requests} requests; {bytes_rejected} did not match
origin|in memory      {fetch_memory} bytes of {fetch_memory_limit}
origin|retries        {retries_busy} as the server was busy, {retries_unreachable} without connection, {retries_broken} broken off
origin.last_failure|last failure   {at} ago: {reason}
origin.replaced|REPLACED       at {place} by another release with the same key, last seen {at} ago:
origin.replaced|               {digest}
origin.replaced|               what is neither in the cache nor at a mirror cannot be read
origin.cache|cache          {directory}
origin.cache|               {bytes_read} bytes read, {bytes_written} written, {bytes_evicted} evicted; {bytes_rejected} did not match, {failures} failures
mirrors|mirrors        {healed} reads answered by them, {ranges_repaired} ranges repaired
mirrors.places|               {place}: {asked} reads, {failed} failed, {wrong} did not match, {bytes_repaired} bytes repaired[{rests}; not asked now]
resident|resident       {files} files; {bytes} bytes of {limit}
resident|               {loads} loaded, {evictions} evicted, {failures} failed; {unfit} opens found no room
resident|loading        {loading} files, of which {loading_bytes} bytes are left
opens|opens          {passthrough} passed through, {relay} relayed, {denied} denied; {audited} audited
opens|               {followed} served otherwise, as the file was open already
rules|               {rule}: {decided} decided, {lost} of them lost, {refused} refused
audit|audit          {target}: {waiting} wait[; {failure}]
passthrough|passthrough    {open} open now, {registered} registered, {reused} from the cache, {idle} kept
passthrough|fallbacks      {fallbacks}[: {refusal}]
relayed|relayed        {reads} reads of {read_bytes} bytes, {writes} writes of {written_bytes} bytes in all
|files          {remembered_files} remembered, {held_files} held
storage|storage        {reads} reads of {read_bytes} bytes, {writes} writes of {written_bytes} bytes in all, {flushes} flushes
|unchecked      from sector {unchecked_from} on, until its tags are recalculated
|read-only      {failure}
|asked          {asked}
|mismatches     {mismatches}
recent_failures|  {file} at {offset}: {reason}
recent_mismatches|  {reason}
|{may_be_replaced}  the file was changed on the server: if a release was published in its place, only a mount by key (--key) can tell
";

pub(super) fn print(out: &mut impl Write, status: &Status) -> io::Result<()> {
    template::print(out, TEXT, &told(status)?)
}

/// What the text shows of a status.
fn told(status: &Status) -> serde_json::Result<Value> {
    let mut fields = fields(status)?;
    fields["pin"] = status.served.pin.as_ref().map(pin_text).into();
    fields["sandbox"] = sandbox_text(status.served.sandbox.as_ref()).into();
    let asked = status.requests.iter();
    let asked: Vec<_> = asked
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    fields["asked"] = (!asked.is_empty()).then(|| asked.join(", ")).into();
    match &status.kind {
        Kind::Image(image) | Kind::File(image) => {
            let digest = image.digest.as_deref();
            fields["digest"] = digest.unwrap_or("none: nothing is verified").into();
            if image.native {
                fields["kind"] = "image, read by the kernel's EROFS".into();
            }
            fields["may_be_replaced"] = may_be_replaced(status, image).into();
            if fields.pointer("/resident/loading") == Some(&json!(0)) {
                fields["resident"]["loading"] = Value::Null;
            }
        }
        Kind::Bridge(_) => fields["mismatches"] = Value::Null,
        _ => {}
    }
    Ok(fields)
}

/// Whether mismatches may be those of another release, which nothing could prove.
fn may_be_replaced(status: &Status, image: &ImageStatus) -> bool {
    let changes = image.origin.as_ref().map_or(0, |origin| origin.changes);
    let is_by_key = matches!(status.served.pin, Some(Pin::Key { .. }));
    status.mismatches > 0 && changes > 0 && !is_by_key
}

/// What a process has given up.
fn sandbox_text(sandbox: Option<&Held>) -> String {
    let Some(held) = sandbox else {
        return "none: it keeps all rights of the user who mounted".to_owned();
    };
    let mut parts = Vec::new();
    if held.files {
        parts.push(format!("only its own files (Landlock {})", held.landlock));
    }
    if held.system_calls {
        parts.push("only known system calls".to_owned());
    }
    if !held.network && (held.landlock >= LANDLOCK_WITH_NETWORK || held.system_calls) {
        parts.push("no network".to_owned());
    }
    parts.push(match held.capabilities.join(" ") {
        none if none.is_empty() => "no capabilities".to_owned(),
        kept => format!("capabilities {kept}"),
    });
    parts.join(", ")
}

/// The trust policy of a mount, in words.
fn pin_text(pin: &Pin) -> String {
    match pin {
        Pin::Digest => "its digest".to_owned(),
        Pin::RootHash => "its root hash".to_owned(),
        Pin::Key { id } => format!("a signature of key {id}"),
        Pin::Unpinned => "nothing: damage is detected, but not forgery".to_owned(),
        Pin::Unverified => "nothing: no content is verified".to_owned(),
        _ => "a policy that only a newer verimount knows".to_owned(),
    }
}
