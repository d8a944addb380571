use std::time::SystemTime;

use verimount_host::mounts::Status;

use super::{prometheus::Metrics, shown::Shown};

/// Statuses of every kind, as JSON, one a line, with a group for each kind. `@2` stands for 2 hours ago. Any process can
/// serve a mount of this name and return any text, so some texts are hostile.
const STATUSES: &str = include_str!("tests/statuses.json");

/// Each status as text.
const TEXT: &str = include_str!("tests/text.txt");

/// The metrics of each group.
const METRICS: &str = include_str!("tests/metrics.txt");

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
            let shown = Shown::new(&status);
            shown.print(&mut lines).unwrap();
            lines.push(b'\n');
            of_group.add(&shown.metrics, &format!("/mnt/{number}"));
        }
        of_group.add(&Shown::silent("no answer").metrics, "/mnt/\"silent\"");
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
    assert_eq!(metrics, METRICS);
    for line in lines.lines().chain(metrics.lines()) {
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
}
