// RUN: nano-opt %s -split-input-file --nano-lower-reports -verify-diagnostics

nano.program @train(%x: tensor<8xf32>) attributes {role = "train"} {
  nano.report "acts" mean %x : tensor<8xf32>
  // expected-error @below {{report 'acts': the name has another report, mean of the micro-batches}}
  nano.report "acts" norm %x : tensor<8xf32>
  nano.return
}

// -----

nano.state @reports.step : tensor<1xf32> {role = #nano.role<report>, init = #nano.init<"constant", [0.0]>}
nano.reported "acts" mean in @reports.step at 0 each_step
nano.program @train(%x: tensor<8xf32>) attributes {role = "train"} {
  // expected-error @below {{report 'acts': the name has another report, mean of the updates}}
  nano.report "acts" mean %x : tensor<8xf32>
  nano.return
}

// -----

// expected-note @below {{taken here}}
nano.state @reports : tensor<1xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @train(%x: tensor<8xf32>) attributes {role = "train"} {
  // expected-error @below {{the name @reports is taken: reports need it}}
  nano.report "acts" mean %x : tensor<8xf32>
  nano.return
}
