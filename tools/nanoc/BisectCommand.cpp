// `nanoc bisect` on the command line.
#include "tools/nanoc/BisectCommand.h"

CLI::App *addBisect(CLI::App &app, nano::bisect::Options &options) {
  CLI::App *command = app.add_subcommand(
      "bisect",
      "Finds the first pass that changes what a step computes, or behind which a check of yours "
      "fails, and the smallest program that shows it, as a test file; exit status 1 where there is "
      "one");
  command->add_option("MODEL.cpp", options.model, "The model file; with --pass a file of IR")
      ->required()
      ->type_name("");
  command
      ->add_option("--check", options.check,
                   "Instead of comparing values runs this command on the IR before and after each "
                   "pass, {} standing for its file; an exit status other than 0 is a failure")
      ->type_name("'COMMAND {}'");
  command
      ->add_option(
          "--tolerance", options.tolerance,
          "How far a result may move, by the size of what the step changes; default: 2^-16 "
          "as long as nothing is rounded, 2^-9 against finite differences, then 2^-14 for "
          "f32, 2^-6 where anything is bf16, 2^-2 where anything has 8 bits")
      ->type_name("R");
  command->add_option("--seed", options.seed, "Of parameters, states and the batch")
      ->capture_default_str()
      ->type_name("S");
  command
      ->add_option("--run-stage", options.runStage,
                   "Of a run in stages, the one to run a step of; default: the first")
      ->type_name("NAME");
  command
      ->add_option("--target", options.target,
                   "The target whose passes run; cuda with --check only (default cpu)")
      ->type_name("cpu|cuda");
  command
      ->add_option(
          "--pass", options.pass,
          "Judges one pass, with its options as nano-opt takes them, on a file of IR: what "
          "a test file does")
      ->type_name("PASS{…}");
  command->add_option("--seconds", options.seconds, "At most for making the program smaller")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 30).description(""))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("-o,--output", options.output, "The test file to write")
      ->capture_default_str()
      ->type_name("FILE.mlir");
  return command;
}
