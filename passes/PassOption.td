// Options of passes that nanoc has too.
#ifndef NANO_PASS_OPTION_TD
#define NANO_PASS_OPTION_TD

include "mlir/Pass/PassBase.td"

/// An option that `nanoc compile` has too: its name there, and what its help calls the value. That is the values, with bars between them, where there are no others, BYTES of a number from
/// 0 on, nothing of what is given or not. passes/pass_options.py makes the command line of these.
class NanocOption<string member, string argument, string type, string default, string description, string flagName, string valueName = "">
    : Option<member, argument, type, default, description> {
  string flag = flagName;
  string value = valueName;
}

#endif
