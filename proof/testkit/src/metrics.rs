//! What Prometheus would read.

/// All samples, in the text format.
#[derive(Debug)]
pub struct Metrics {
    samples: Vec<(String, f64)>,
}

// === impl Metrics ===

impl Metrics {
    /// Every line that is no comment must be a sample.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let sample = |line: &str| {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
            (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")))
        };
        Self { samples: lines.map(sample).collect() }
    }

    /// The sum of all samples with this name and these labels; `None` if there is none.
    pub fn find(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let is_it = |sample: &str| {
            let (known, rest) = sample.split_once('{').unwrap_or((sample, ""));
            known == name && labels.iter().all(|(l, v)| rest.contains(&format!("{l}=\"{v}\"")))
        };
        let mut found = self.samples.iter().filter(|(sample, _)| is_it(sample)).peekable();
        found.peek()?;
        Some(found.map(|(_, value)| value).sum())
    }

    /// How many requests were decided so.
    pub fn attempts(&self, decision: &str) -> f64 {
        self.find("semel_attempts_total", &[("decision", decision)]).unwrap_or(0.0)
    }
}
