//! What came of a run.

use std::fmt;

use super::{Judgement, Outcome, families};

/// The outcomes of a client's scenes.
#[derive(Clone, Debug)]
pub struct Report {
    /// The client's name and version, as it says.
    pub client: String,
    /// The scenes, in order.
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// Returns the scenes that failed, and why.
    pub fn failed(&self) -> impl Iterator<Item = (&Outcome, &str)> {
        self.outcomes.iter().filter_map(|outcome| match &outcome.judgement {
            Judgement::Failed(why) => Some((outcome, why.as_str())),
            _ => None,
        })
    }

    /// Returns how many scenes of a family, or of all, passed, were not supported, and failed.
    pub fn counts(&self, family: Option<&str>) -> (usize, usize, usize) {
        let count = |is: fn(&Judgement) -> bool| {
            let of = self.outcomes.iter().filter(|it| family.is_none_or(|f| it.scene.family == f));
            of.filter(|outcome| is(&outcome.judgement)).count()
        };
        (
            count(|it| *it == Judgement::Passed),
            count(|it| *it == Judgement::Unsupported),
            count(|it| matches!(it, Judgement::Failed(_))),
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (outcome, why) in self.failed() {
            writeln!(f, "FAILED {} ({})\n    {why}", outcome.scene.title(), outcome.scene.source)?;
        }
        writeln!(f, "{}\n{:12} passed unsupported failed", self.client, "")?;
        for family in families() {
            let (passed, unsupported, failed) = self.counts(Some(family));
            if passed + unsupported + failed > 0 {
                writeln!(f, "{family:12} {passed:6} {unsupported:11} {failed:6}")?;
            }
        }
        let (passed, unsupported, failed) = self.counts(None);
        write!(f, "{:12} {passed:6} {unsupported:11} {failed:6}", "all")
    }
}
