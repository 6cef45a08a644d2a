// Event files for TensorBoard: TFRecords of Event messages, written by hand.
//
// A record: its length, 64 bits; the masked CRC-32C of these; the message; its masked CRC-32C.
// Little-endian. The messages and their field numbers are TensorFlow's event.proto and
// summary.proto. A run that goes on from a checkpoint writes another file into the folder, whose
// SessionLog says from which step on; TensorBoard then forgets what earlier files have from there.
#pragma once

#include "base/OutputFile.h"
#include "base/Status.h"
#include "runtime/Log.h"
#include "runtime/Reports.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nano {

/// CRC-32C (Castagnoli) of the bytes, and as TFRecords keep it.
uint32_t crc32c(std::string_view bytes);
uint32_t maskedCrc32c(std::string_view bytes);

/// One event file, or nothing when it was made without a folder. Every event is on its way to the
/// disk when a call returns, so that a crash of the program loses none.
class TensorBoard {
public:
  /// Without effect: every call succeeds.
  TensorBoard() = default;
  /// Makes the folder and a new file in it. `firstStep`: the steps done before this run. BadInput,
  /// with the option's name, when that cannot be.
  static Result<TensorBoard> open(const std::string &directory, int64_t firstStep);

  /// Scalars "train/loss", "train/lr", "train/step_ms", "train/tokens_per_second".
  Status step(const StepFacts &facts);
  /// Scalar "train/joules": of a step.
  Status energy(const EnergyFacts &facts);
  /// Scalar "val/loss".
  Status validation(int64_t step, double loss);
  /// A scalar or a histogram a report, by its name.
  Status reports(int64_t step, const std::vector<ReportFacts> &facts);

private:
  /// Writes an event of that step: `field` is its "what", `message` that field's content.
  Status write(int64_t step, uint32_t field, std::string_view message);

  std::optional<OutputFile> file;
};

} // namespace nano
