// SPDX-License-Identifier: Apache-2.0
// The kernels of a body on the device: each call is queued on the stream of the body's operation.
#pragma once

#include <functional>

#include "engine/cuda/kernel_api.h"
#include "tessera/status.h"

namespace tessera {

class CudaKernels final : public Kernels {
 public:
  /// Both wait for what the stream has been given; the bytes are elements of the device's memory.
  struct Transfers {
    std::function<Status(std::span<const std::byte> device, std::span<std::byte> host)> to_host;
    std::function<Status(std::span<const std::byte> host, std::span<std::byte> device)> to_device;
  };
  CudaKernels(const CudaApi& cuda, const KernelApi& api, CudaStream stream, void* workspace,
              Transfers transfers)
      : cuda_(cuda),
        api_(api),
        stream_(stream),
        workspace_(workspace),
        transfers_(std::move(transfers)) {}

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

  /// The first thing that went wrong; what came after it was not done.
  const Status& status() const { return status_; }

 private:
  void launched(int code, const char* name);

  const CudaApi& cuda_;
  const KernelApi& api_;
  const CudaStream stream_;
  void* const workspace_;
  const Transfers transfers_;
  Status status_;
};

}  // namespace tessera
