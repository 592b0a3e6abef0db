//! Formats numbers.

/// Three significant digits, or all digits of the integer part in groups of three.
pub fn short(v: f64) -> String {
    let size = v.abs();
    if !v.is_finite() {
        return "–".into();
    }
    if size == 0.0 {
        return "0".into();
    }
    if size < 0.001 {
        return format!("{v:.1e}");
    }
    let decimals = (2 - size.log10().floor() as i32).clamp(0, 5) as usize;
    let text = format!("{v:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    grouped(text)
}

/// Narrow no-break spaces between groups of three digits, from five digits on.
fn grouped(text: &str) -> String {
    let (whole, rest) = text.split_once('.').map_or((text, None), |(w, r)| (w, Some(r)));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |d| ("-", d));
    let mut out = String::from(sign);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && digits.len() > 4 && (digits.len() - i) % 3 == 0 {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    if let Some(rest) = rest {
        out.push('.');
        out.push_str(rest);
    }
    out
}

/// Escapes text for tags and attributes.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        for (v, text) in [
            (0.0, "0"),
            (0.00004, "4.0e-5"),
            (0.012_345, "0.0123"),
            (1.0, "1"),
            (1.5, "1.5"),
            (12.34, "12.3"),
            (1234.4, "1234"),
            (-12_345.6, "-12\u{202f}346"),
            (1_234_567.0, "1\u{202f}234\u{202f}567"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(short(v), text);
        }
    }
}
