//! HTML that cannot forget to escape: text enters a template only through a hole, and a hole escapes it.

use std::fmt::Write;
use std::sync::Arc;

/// Finished markup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Html(String);

impl Html {
    /// Nothing.
    pub(super) const EMPTY: Self = Self(String::new());

    /// Takes markup that someone else made and escaped.
    pub(super) fn trusted(markup: String) -> Self {
        Self(markup)
    }

    pub(super) fn push(&mut self, more: &Self) {
        self.0.push_str(&more.0);
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

impl FromIterator<Self> for Html {
    fn from_iter<I: IntoIterator<Item = Self>>(parts: I) -> Self {
        parts.into_iter().fold(Self::EMPTY, |mut whole, part| {
            whole.push(&part);
            whole
        })
    }
}

/// Something that fits a hole `{}` of a template.
pub(super) trait Piece {
    fn write(&self, out: &mut String);
}

/// Fills the holes of a template, in order.
///
/// # Panics
///
/// If there are more or fewer pieces than holes: a mistake in the template, which any test of the page finds.
pub(super) fn html(template: &'static str, pieces: &[&dyn Piece]) -> Html {
    let mut out = String::with_capacity(template.len() + 16 * pieces.len());
    let mut parts = template.split("{}");
    out.push_str(parts.next().unwrap_or_default());
    let mut pieces = pieces.iter();
    for part in parts {
        pieces.next().expect("a piece for every hole").write(&mut out);
        out.push_str(part);
    }
    assert!(pieces.next().is_none(), "more pieces than holes in {template}");
    Html(out)
}

impl Piece for Html {
    fn write(&self, out: &mut String) {
        out.push_str(&self.0);
    }
}

impl Piece for Arc<Html> {
    fn write(&self, out: &mut String) {
        out.push_str(&self.0);
    }
}

impl Piece for &str {
    fn write(&self, out: &mut String) {
        for character in self.chars() {
            match character {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '"' => out.push_str("&quot;"),
                '\'' => out.push_str("&#39;"),
                other => out.push(other),
            }
        }
    }
}

impl Piece for String {
    fn write(&self, out: &mut String) {
        self.as_str().write(out);
    }
}

macro_rules! number {
    ($($kind:ty),*) => {
        $(impl Piece for $kind {
            fn write(&self, out: &mut String) {
                write!(out, "{self}").expect("a String takes everything");
            }
        })*
    };
}

number!(u8, u16, u64, usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_markup_is_not() {
        let bold = html("<b title=\"{}\">{}</b>", &[&"\"'", &String::from("<a> & b")]);
        let whole = html("<p>{}{}</p>", &[&bold, &7u64]);
        assert_eq!(whole.into_string(), "<p><b title=\"&quot;&#39;\">&lt;a&gt; &amp; b</b>7</p>");
    }

    #[test]
    fn text_cannot_open_a_hole() {
        assert_eq!(html("<p>{}{}</p>", &[&"{}", &"x"]).into_string(), "<p>{}x</p>");
    }

    #[test]
    #[should_panic(expected = "a piece for every hole")]
    fn a_hole_without_a_piece_is_a_bug() {
        html("{}{}", &[&"x"]);
    }
}
