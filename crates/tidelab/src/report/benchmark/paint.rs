//! The colours of a table.

/// Colours, or none.
pub struct Paint(pub bool);

impl Paint {
    fn with(&self, code: u8, text: &str) -> String {
        if self.0 {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_string()
        }
    }

    pub(super) fn red(&self, text: &str) -> String {
        self.with(31, text)
    }

    pub(super) fn green(&self, text: &str) -> String {
        self.with(32, text)
    }

    pub(super) fn yellow(&self, text: &str) -> String {
        self.with(33, text)
    }
}
