use crate::support::{run, text};

#[test]
fn wrong_usage_exits_with_2_and_talks_on_standard_error() {
    let wrong: [&[&str]; 6] = [
        &[],
        &["demo", "--colour"],
        &["demo", "--failure-rate", "2"],
        &["gateway", "extra"],
        &["check", "--schema", "--config", "semel.toml"],
        &["completions", "cobol"],
    ];
    for arguments in wrong {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
        assert!(text(&output.stderr).contains("--help"), "{arguments:?}");
    }
}

#[test]
fn every_command_has_help_with_examples() {
    for command in ["gateway", "check", "demo", "completions"] {
        let output = run(&[command, "--help"]);
        let help = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{command}");
        assert!(help.contains("Examples:\n  "), "{help}");
        assert!(!help.contains("until-stdin"), "what is hidden stays hidden: {help}");
        assert!(text(&run(&["--help"]).stdout).contains(&format!("\n  {command} ")), "{command}");
    }
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&run(&["completions", shell]).stdout);
        assert!(script.contains("gateway") && script.contains("upstream"), "{shell}");
    }
}
