//! The report as one HTML page that needs no network: style and script are part of the page, and the data are the JSON report.
//!
//! The script builds everything from text nodes, so nothing in a module can become markup; here only the title and the data block are
//! escaped. The size is bounded because the data are: a bounded number of points, buffers and groups.

use super::{Report, json};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The page.
pub(super) fn write(report: &Report<'_>) -> String {
    let (title, data) = (escape(report.module), embed(&json::compact(report)));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}: memory</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<div id=\"tip\" role=\"status\"></div>\n\
         <noscript>This report draws itself with a script that is part of the page.</noscript>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

/// Text for an element.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// JSON for a script element: outside of strings JSON has no `<`, and inside it can be written as an escape. Without it neither
/// `</script>` nor `<!--` can end or hide the element.
fn embed(json: &str) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_ends_an_element() {
        assert_eq!(escape("a<script>&\"b"), "a&lt;script&gt;&amp;\"b");
        assert_eq!(embed("{\"m\":\"</script><!--\"}"), "{\"m\":\"\\u003c/script>\\u003c!--\"}");
        assert!(!SCRIPT.contains("</") && !STYLE.contains("</"), "the page's own parts would end their elements");
        assert!(!SCRIPT.contains("innerHTML"), "text must stay text");
    }

    #[test]
    fn the_page_asks_nothing_of_the_network() {
        let own = SCRIPT.replace("http://www.w3.org/2000/svg", "");
        for part in [own.as_str(), STYLE] {
            assert!(!part.contains("http") && !part.contains("//cdn") && !part.contains("@import"));
        }
    }
}
