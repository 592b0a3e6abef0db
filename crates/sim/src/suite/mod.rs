//! All of it: which cases, how many, what was found.
mod case;
mod hunt;
mod one;
mod plan;
mod report;
mod run;

pub use case::{Case, Kind};
pub use hunt::hunt;
pub use one::run as run_case;
pub use plan::{Depth, Plan, RowPlan};
pub use report::{Finding, Hunt, Report, Row, Totals};
pub use run::{Progress, hunt_planted, run, run_cases};
