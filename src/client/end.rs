//! The one end of a call.

use std::sync::Arc;

use crate::error::Error;
use crate::protocol::content::ResultView;
use crate::protocol::json::Json;

/// How a call ended.
#[derive(Clone, Debug)]
pub(crate) enum CallEnd {
    /// With a result.
    Result(Arc<ResultView>),
    /// With a result that does not match the tool's output schema.
    Unfit(Arc<ResultView>, Error),
    /// With a task, which is followed; the call holds it.
    Task,
    /// With an error.
    Failed(Error),
}

impl CallEnd {
    /// The end with a result, which may have a flaw.
    pub(super) fn of_result(result: Json, flaw: Option<Error>) -> Self {
        let view = Arc::new(ResultView::new(result));
        match flaw {
            None => Self::Result(view),
            Some(flaw) => Self::Unfit(view, flaw),
        }
    }

    /// The result, also one that does not match.
    pub(crate) fn result(&self) -> Option<&Arc<ResultView>> {
        match self {
            Self::Result(view) | Self::Unfit(view, _) => Some(view),
            Self::Task | Self::Failed(_) => None,
        }
    }

    /// What went wrong.
    pub(crate) fn error(&self) -> Option<&Error> {
        match self {
            Self::Unfit(_, error) | Self::Failed(error) => Some(error),
            Self::Result(_) | Self::Task => None,
        }
    }
}
