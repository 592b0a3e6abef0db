//! The results of an experiment as JSON.
use crate::budget::Budget;
use crate::machine::Machine;
use crate::page::Figure;
use anyhow::{Result, ensure};
use serde::Serialize;
use serde_json::{Map, Value};

/// One line of the results. Its fields are the experiment's own and are written down in its schema.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Row(pub Map<String, Value>);

impl Row {
    /// Takes the fields of any structure.
    pub fn of(fields: &impl Serialize) -> Result<Self> {
        match serde_json::to_value(fields)? {
            Value::Object(fields) => Ok(Self(fields)),
            other => anyhow::bail!("a row needs named fields, not {other}"),
        }
    }
}

/// Runs that were planned and have no result.
#[derive(Clone, Debug, Serialize)]
pub struct LeftOut {
    pub run: String,
    pub why: String,
}

/// The results of one run of an experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub experiment: String,
    pub seed: u64,
    /// Parameters of the run: sizes, counts, times, options.
    pub config: Map<String, Value>,
    pub machine: Machine,
    pub results: Vec<Row>,
    pub left_out: Vec<LeftOut>,
    /// Notes needed to interpret the figures.
    pub notes: Vec<String>,
    /// Plots and tables of the page.
    #[serde(skip)]
    pub figures: Vec<Figure>,
    /// Output of the formatter and layout of the volume.
    #[serde(skip)]
    pub mkfs: String,
}

impl Report {
    /// An empty report.
    pub fn new(experiment: &str, seed: u64, config: &impl Serialize, machine: Machine) -> Result<Self> {
        Ok(Self {
            experiment: experiment.to_owned(),
            seed,
            config: Row::of(config)?.0,
            machine,
            results: Vec::new(),
            left_out: Vec::new(),
            notes: Vec::new(),
            figures: Vec::new(),
            mkfs: String::new(),
        })
    }

    pub fn push(&mut self, row: &impl Serialize) -> Result<()> {
        self.results.push(Row::of(row)?);
        Ok(())
    }

    pub fn leave_out(&mut self, run: impl Into<String>, why: impl Into<String>) {
        self.left_out.push(LeftOut { run: run.into(), why: why.into() });
    }

    /// Records the rounds that the budget did not permit.
    pub fn note_rounds(&mut self, what: &str, done: usize, planned: usize) {
        for round in done..planned {
            self.leave_out(format!("{what}, round {} of {planned}", round + 1), Budget::OVER);
        }
    }

    /// How many runs have no result, and why: a sentence for each reason.
    pub fn left_out(&self) -> Vec<String> {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for LeftOut { run, why } in &self.left_out {
            match reasons.iter_mut().find(|(known, _)| known == why) {
                Some((_, runs)) => runs.push(run),
                None => reasons.push((why, vec![run])),
            }
        }
        let sentence = |(why, runs): (&str, Vec<&str>)| {
            let all = self.results.len();
            format!(
                "Runs left out: {}, because {why}: {}. Rows with a result: {all}.",
                runs.len(),
                runs.join("; ")
            )
        };
        reasons.into_iter().map(sentence).collect()
    }

    /// The JSON document, checked against the schemas of the envelope and of the rows.
    pub fn to_json(&self, rows: &str) -> Result<Value> {
        let document = serde_json::to_value(self)?;
        crate::schema::check(crate::schema::ENVELOPE, &document)?;
        for row in &self.results {
            crate::schema::check(rows, &Value::Object(row.0.clone()))?;
        }
        ensure!(!self.results.is_empty(), "the experiment {} gave no result", self.experiment);
        Ok(document)
    }
}
