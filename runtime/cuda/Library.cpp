// The entry point of libnano-device-cuda.so.
#include "runtime/cuda/CudaDevice.h"

#include <future>

namespace {

bool hasProducts(const nano::plan::Plan &plan) {
  for (const nano::plan::Program &program : plan.programs)
    for (const nano::plan::Command &command : program.commands)
      if (command.is<nano::plan::Matmul>())
        return true;
  return false;
}

nano::Result<std::unique_ptr<nano::cuda::CudaDevice>> create(const nano::plan::Plan &plan,
                                                             nano::Communicator &communicator,
                                                             const nano::DeviceOptions &options) {
  using namespace nano;
  cuda::Apis apis;
  Phases phases;
  Result<const cuda::DriverApi *> driver = cuda::loadDriver();
  if (!driver)
    return driver.error();
  apis.driver = *driver;
  // The driver's start opens libraries too, and the loader opens one at a time: the others come
  // after it. What is wrong with it hears who looks for GPUs.
  (void)apis.driver->cuInit(0);
  phases.end("driver");
  // Libraries of a tenth and of half a gigabyte: their loading runs beside the making of the
  // context, that of the one which kernels wait for first.
  std::future<void> loading, counting;
  loading = std::async(std::launch::async,
                       [kernels = !plan.kernels.empty(), products = hasProducts(plan)] {
                         if (kernels)
                           (void)cuda::loadNvrtc();
                         if (products)
                           (void)cuda::loadCublasLt();
                       });
  // So does what NVML does once.
  counting = std::async(std::launch::async, [] {
    if (Result<const cuda::NvmlApi *> nvml = cuda::loadNvml())
      (void)(*nvml)->nvmlInit_v2();
  });
  return cuda::CudaDevice::create(plan, communicator, options, apis, BuildCache::defaultFolder(),
                                  phases);
}

} // namespace

extern "C" __attribute__((visibility("default"))) nano::Device *
nanoCreateDevice(const nano::plan::Plan *plan, nano::Communicator *communicator,
                 const nano::DeviceOptions *options, nano::Error *error) {
  auto device = create(*plan, *communicator, *options);
  if (device)
    return device->release();
  *error = device.error();
  return nullptr;
}

extern "C" __attribute__((visibility("default"))) void nanoBeginDevice() {
  if (nano::Result<const nano::cuda::DriverApi *> driver = nano::cuda::loadDriver())
    (void)(*driver)->cuInit(0);
}

extern "C" __attribute__((visibility("default"))) bool nanoIdentifyDevice(std::string *text,
                                                                          nano::Error *error) {
  using namespace nano;
  Result<const cuda::DriverApi *> driver = cuda::loadDriver();
  Result<const cuda::NvrtcApi *> nvrtc = cuda::loadNvrtc();
  if (!driver || !nvrtc) {
    *error = driver ? nvrtc.error() : driver.error();
    return false;
  }
  try {
    (void)cuda::visibleGpus(**driver);
    const cuda::Gpu gpu(**driver, 0);
    *text = gpu.name + ", CUDA " + std::to_string(gpu.driverVersion) + ", driver " +
            cuda::kernelModuleVersion() + ", NVRTC " + cuda::nvrtcVersion(**nvrtc);
    return true;
  } catch (const cuda::Failure &failure) {
    *error = failure.error;
    return false;
  }
}
