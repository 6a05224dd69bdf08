//! One setting of a server, and sizes as option files have them.

use std::borrow::Cow;

/// One variable of the server and the value it is asked to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The variable, as `SHOW GLOBAL VARIABLES` spells it.
    pub name: Cow<'static, str>,
    /// The value, as an option file has it (`64M`, `ON`, `NONE`).
    pub value: String,
    /// True if the server must use just this; it may change others by itself.
    pub exact: bool,
}

/// A setting.
pub fn setting(name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Setting {
    Setting { name: name.into(), value: value.into(), exact: true }
}

/// A setting whose value the server may show in another form, or not at all.
pub fn hint(name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Setting {
    Setting { exact: false, ..setting(name, value) }
}

/// A size with or without a suffix, in bytes; none for any other text.
pub fn bytes(value: &str) -> Option<u64> {
    let shift = match value.chars().last()?.to_ascii_uppercase() {
        'K' => 10,
        'M' => 20,
        'G' => 30,
        _ => return value.parse().ok(),
    };
    value[..value.len() - 1].parse::<u64>().ok()?.checked_mul(1 << shift)
}
