// SPDX-License-Identifier: Apache-2.0
// The kernels of a body on the device: each call is queued on the stream of the body's operation.
#pragma once

#include <functional>

#include "engine/backends/cuda/device_math.h"
#include "engine/backends/cuda/kernel_api.h"
#include "engine/backends/cuda/mailbox.h"

namespace tessera {

class CudaKernels final : public Kernels {
 public:
  /// The parts of the backend that all bodies share.
  struct Device {
    const CudaApi& cuda;
    const KernelApi& api;
    Mailbox& mailbox;
    DeviceMath* math;
    bool recorded = false;  // into a graph, which is launched again without the host
  };
  /// Copies to the host after all work enqueued on the stream so far, and waits for it.
  using ToHost =
      std::function<Status(std::span<const std::byte> device, std::span<std::byte> host)>;
  CudaKernels(const Device& device, CudaStream stream, void* workspace, ToHost to_host)
      : device_(device),
        api_(device.api),
        stream_(stream),
        workspace_(workspace),
        to_host_(std::move(to_host)) {}

  void scale(ConstElements from, Elements to, float factor) override;
  void divide(Elements values, float divisor) override;
  void add(ConstElements from, Elements into) override;
  void adam(const AdamNumbers& numbers, ConstElements gradient, Elements values, Elements exp_avg,
            Elements exp_avg_sq) override;
  void add_norm(Norm norm, ConstElements values, Elements one) override;
  void clip(Norm norm, ConstElements sum, float max_norm, Elements values) override;
  void unscale(Elements values, float factor, Elements found) override;
  void quantize(const BlockFormat& format, ConstElements from, std::span<const std::int64_t> rows,
                std::span<std::byte> codes, Elements scales) override;
  void dequantize(const BlockFormat& format, std::span<const std::byte> codes, ConstElements scales,
                  Elements to) override;
  void read(ConstElements from, std::span<float> to) override;
  void write(std::span<const float> from, Elements to) override;
  void send(std::span<const std::byte> from, std::span<std::byte> to) override;
  void receive(std::span<const std::byte> from, Mailbox::Then then) override;
  kernels::Math* math() override;

  /// The first error; later calls did nothing.
  Status status() const;
  /// How many entries of the stream the calls have taken, at most.
  int launches() const;

 private:
  void launched(int code, const char* name);
  /// Whether nothing has failed and the host may take part; in a recorded body it may not.
  bool with_host();

  const Device device_;
  const KernelApi& api_;
  const CudaStream stream_;
  void* const workspace_;
  const ToHost to_host_;
  Status status_;
  bool uses_math_ = false;
  int launches_ = 0;  // without those of the mathematics
};

}  // namespace tessera
