#include "base/CompilerCommand.h"

#include <cstdlib>
#include <sstream>

namespace nano {

std::vector<std::string> compilerCommand() {
  const char *chosen = std::getenv("CXX");
  std::istringstream words(chosen && *chosen ? chosen : "c++");
  std::vector<std::string> command;
  for (std::string word; words >> word;)
    command.push_back(word);
  return command;
}

} // namespace nano
