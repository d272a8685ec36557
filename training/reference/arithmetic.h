// SPDX-License-Identifier: Apache-2.0
// The transcendental functions of training, from additions and multiplications alone: libm differs
// between systems in the last bit. Polynomials: Cephes (Moshier), single precision.
#pragma once

namespace tessera::real {

/// e^x. Relative error below 2e-7 for -87 <= x <= 88; 0 below, e^88 above.
float exponential(float x);
/// ln x. Error below 2e-7, relative or absolute. REQUIRES: x is positive and normal.
float logarithm(float x);
/// Absolute error below 2e-7.
float hyperbolic_tangent(float x);

}  // namespace tessera::real
