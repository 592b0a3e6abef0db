//! packaging/grafana/segno.json and the alerts of packaging/prometheus against the exporter.
use super::text::{Family, Format, Source, render};
use crate::counters::{Slow, all, sample};
use serde_json::Value;
use std::collections::BTreeSet;

/// Names of all metrics, and of their labels, in Prometheus's format.
fn exported() -> (BTreeSet<String>, BTreeSet<String>) {
    let names: Vec<String> = all().map(|c| c.name.replace('*', "read")).collect();
    let values: Vec<(&str, u64)> = names.iter().map(|n| (n.as_str(), 1)).collect();
    let text = |s: &str| s.to_owned();
    let slowest = vec![Slow { op: "read".into(), ino: 1, ns: 1, age_ms: 1 }];
    let source =
        Source { volume: text("v"), image: text("i"), dir: text("d"), readings: sample(&values), slowest };
    let text = render(&Family::of(&[source]), Format::Prometheus);
    let samples: Vec<&str> = text.lines().filter(|l| !l.starts_with('#')).collect();
    let names = samples.iter().filter_map(|l| Some(l.split_once('{')?.0.to_owned()));
    let labels = samples.iter().flat_map(|l| words(l)).filter(|(_, after)| after.starts_with("=\""));
    (names.collect(), labels.map(|(word, _)| word.to_owned()).collect())
}

/// Identifiers, each with the text after it.
fn words(text: &str) -> Vec<(&str, &str)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts = text.split(|c| !is_word(c)).filter(|w| !w.is_empty());
    starts.map(|w| (w, &text[w.as_ptr() as usize - text.as_ptr() as usize + w.len()..])).collect()
}

fn packaged(name: &str) -> String {
    std::fs::read_to_string(format!("{}/../../packaging/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn every_alert_and_its_tests_are_about_metrics_that_exist() {
    let (names, _) = exported();
    for (file, least) in [("prometheus/segno.rules.yml", 8), ("prometheus/segno.rules.test.yml", 8)] {
        let text = packaged(file);
        let metrics: BTreeSet<&str> =
            words(&text).into_iter().map(|(w, _)| w).filter(|w| w.starts_with("segno_")).collect();
        assert!(metrics.len() >= least, "{file}: {metrics:?}");
        metrics.iter().for_each(|m| assert!(names.contains(*m), "{file}: no metric {m}"));
    }
    // Each is expected by the test in which all faults are present.
    let tests = packaged("prometheus/segno.rules.test.yml");
    let rules = packaged("prometheus/segno.rules.yml");
    let alerts: Vec<&str> = rules.lines().filter_map(|l| l.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 8);
    alerts.iter().for_each(|a| assert!(tests.contains(&format!("alertname=\"{a}\"")), "{a}"));
}

#[test]
fn every_panel_shows_metrics_that_exist() {
    let dashboard: Value = serde_json::from_str(&packaged("grafana/segno.json")).unwrap();
    let (names, labels) = exported();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() > 10);
    for panel in panels {
        for target in panel["targets"].as_array().unwrap() {
            let expr = target["expr"].as_str().unwrap();
            let metrics: Vec<&str> =
                words(expr).into_iter().map(|(w, _)| w).filter(|w| w.starts_with("segno_")).collect();
            assert!(!metrics.is_empty(), "{expr}");
            metrics.iter().for_each(|m| assert!(names.contains(*m), "{}: no metric {m}", panel["title"]));
            let legend = target["legendFormat"].as_str().unwrap();
            for label in legend.split("{{").skip(1).filter_map(|l| l.split("}}").next()) {
                assert!(labels.contains(label), "{}: no label {label}", panel["title"]);
            }
        }
    }
    let variable = dashboard["templating"]["list"][1]["query"].as_str().unwrap();
    assert!(names.contains("segno_mount_info") && variable.contains("segno_mount_info, volume"));
}
