//! The test suite: cases, plans, reports.
mod case;
mod hunt;
mod one;
mod plan;
mod report;
mod run;

pub use case::{Case, Kind};
pub use hunt::{HuntPlan, hunt};
pub use one::run as run_case;
pub use plan::{Depth, Plan, RowPlan};
pub use report::{Finding, Hunt, Reach, Report, Row, Totals};
pub use run::{Progress, run, run_cases};
