use crate::support::run;

#[test]
fn wrong_usage_exits_with_2_and_talks_on_standard_error() {
    let wrong: [&[&str]; 7] = [
        &[],
        &["demo", "--colour"],
        &["demo", "--failure-rate", "2"],
        &["gateway", "extra"],
        &["check", "--schema", "--config", "semel.toml"],
        &["completions", "cobol"],
        // With or without the feature `postgres`.
        &["migrate", "--listen", "127.0.0.1:1"],
    ];
    for arguments in wrong {
        let output = run(arguments);
        assert_eq!(output.code, Some(2), "{arguments:?}");
        assert_eq!(output.out, "", "{arguments:?}");
        assert!(output.err.contains("--help"), "{arguments:?}");
    }
}

#[test]
fn every_command_has_help_with_examples() {
    let migrate = cfg!(feature = "postgres").then_some("migrate");
    for command in ["gateway", "check", "demo", "completions"].into_iter().chain(migrate) {
        let output = run(&[command, "--help"]);
        let help = output.out;
        assert_eq!(output.code, Some(0), "{command}");
        assert!(help.contains("Examples:\n  "), "{help}");
        assert!(!help.contains("until-stdin"), "what is hidden stays hidden: {help}");
        assert!(run(&["--help"]).out.contains(&format!("\n  {command} ")), "{command}");
    }
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]).out;
        assert!(script.contains("gateway") && script.contains("upstream"), "{shell}");
    }
}
