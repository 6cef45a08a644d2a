// What a host compiler says of a model file, cut to what its author needs.
#pragma once

#include <string>

namespace nano {

/// The errors that `messages`, a host compiler's standard error with LC_ALL=C, names in the model
/// file `path` of the text `source`: each as
///
///     models/x.cpp:41: 'reshap' was not declared in this scope; is it reshape?
///        41 |   y = reshap(x, {2, 3});
///           |       ^~~~~~
///
/// An error inside a header counts at the model's line that leads there. At most five, and how many
/// more there are. `declarations` is the text that declares the front end. Empty where no error of
/// the model file is found in `messages`.
std::string hostErrors(const std::string &messages, const std::string &path,
                       const std::string &source, const std::string &declarations);

} // namespace nano
