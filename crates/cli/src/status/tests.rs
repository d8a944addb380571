use std::time::SystemTime;

use verimount_host::mounts::Status;

use super::{
    metrics::{METRICS, Metrics, columns},
    text,
};

/// Statuses of every kind, as JSON, one a line, with a group for each kind. `@2` stands for 2 hours ago. Any process can
/// serve a mount of this name and return any text, so some texts are hostile.
const STATUSES: &str = include_str!("tests/statuses.json");

/// Each status as text.
const TEXT: &str = include_str!("tests/text.txt");

/// The metrics of each group.
const SHOWN_METRICS: &str = include_str!("tests/metrics.txt");

/// Moments as a status has them, by their names in the files.
fn moments() -> [(String, String); 4] {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    [2, 3, 4, 5].map(|hours| (format!("@{hours}"), (now - hours * 3600).to_string()))
}

/// The text of all statuses, and the metrics.
fn shown() -> (String, String) {
    let (mut lines, mut metrics) = (Vec::new(), Vec::new());
    let moments = moments();
    let mut json = STATUSES.to_owned();
    for (name, moment) in &moments {
        json = json.replace(name, moment);
    }
    for group in json.split("\n\n") {
        let mut of_group = Metrics::default();
        for (number, status) in group.lines().enumerate() {
            let status: Status = serde_json::from_str(status).unwrap();
            text::print(&mut lines, &status).unwrap();
            lines.push(b'\n');
            let target = format!("/mnt/{number}");
            of_group.add(&target, Some(&status)).unwrap();
        }
        of_group.add("/mnt/\"silent\"", None).unwrap();
        of_group.print(&mut metrics).unwrap();
        metrics.push(b'\n');
    }
    let mut metrics = String::from_utf8(metrics).unwrap();
    for (name, moment) in &moments {
        metrics = metrics.replace(moment, name);
    }
    (String::from_utf8(lines).unwrap(), metrics)
}

#[test]
fn every_kind_is_shown_as_text_and_as_metrics() {
    let (lines, metrics) = shown();
    assert_eq!(lines, TEXT);
    assert_eq!(metrics, SHOWN_METRICS);
    for line in lines.lines().chain(metrics.lines()) {
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
}

/// A field that no status has would be missed by nobody.
#[test]
fn every_metric_has_a_value() {
    let (_, metrics) = shown();
    for line in METRICS.lines() {
        let name = line.split([' ', '{']).next().unwrap();
        let label = line.split(' ').next().unwrap().split_once('=');
        let label = label.map_or("", |(_, value)| value.trim_end_matches('}'));
        let sample = format!("verimount_{name}{{target=");
        let mut samples = metrics.lines().filter(|line| line.starts_with(&sample));
        assert!(samples.any(|sample| sample.contains(label)), "{line}");
    }
    assert!(METRICS.lines().all(|line| columns(line).is_some()));
}
