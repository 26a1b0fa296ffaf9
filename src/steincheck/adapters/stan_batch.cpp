// C interface to one Stan model, appended to the C++ code that stanc wrote for it. Points come and go in
// batches, one per row; a row at which Stan throws gets -inf or NaN and leaves the other rows alone.
#include <stan/io/json/json_data.hpp>
#include <stan/math.hpp>
#include <stan/model/log_prob_grad.hpp>
#include <stan/services/util/create_rng.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace steincheck {

using stan::model::model_base;
const double nan = std::numeric_limits<double>::quiet_NaN();
const double minus_infinity = -std::numeric_limits<double>::infinity();

inline void copy_text(const std::string& text, char* out, long size) {
  const long length = std::min<long>(text.size(), size - 1);
  std::memcpy(out, text.data(), length);
  out[length] = '\0';
}

inline std::string lines(const std::vector<std::string>& names) {
  std::ostringstream text;
  for (const auto& name : names) text << name << '\n';
  return text.str();
}

}  // namespace steincheck

extern "C" {

// The model with its data, or a null pointer and the reason.
void* steincheck_new(const char* json, char* message, long size) {
  try {
    std::istringstream stream(json);
    stan::json::json_data data(stream);
    return &new_model(data, 0, nullptr);
  } catch (const std::exception& error) {
    steincheck::copy_text(error.what(), message, size);
    return nullptr;
  }
}

void steincheck_delete(void* model) { delete static_cast<steincheck::model_base*>(model); }

// Names, one per line, of the parameters (which = 0) or of the unconstrained coordinates (which = 1); returns
// the length of the text, which is cut to the size of the buffer.
long steincheck_names(void* model, int which, char* out, long size) {
  std::vector<std::string> names;
  auto& self = *static_cast<steincheck::model_base*>(model);
  if (which == 0) self.constrained_param_names(names, false, false);
  else self.unconstrained_param_names(names, false, false);
  const std::string text = steincheck::lines(names);
  if (size > 0) steincheck::copy_text(text, out, size);
  return text.size();
}

// Log density of n points of dimension d, with the Jacobian of the transformation; and with it the gradient,
// unless its pointer is null.
void steincheck_log_density(void* model, const double* points, long n, long d, double* value, double* gradient) {
  auto& self = *static_cast<steincheck::model_base*>(model);
  Eigen::VectorXd point(d), slope(d);
  for (long i = 0; i < n; ++i) {
    try {
      point = Eigen::Map<const Eigen::VectorXd>(points + i * d, d);
      if (gradient == nullptr) {
        value[i] = self.log_prob_jacobian(point, nullptr);
      } else {
        value[i] = stan::model::log_prob_grad<false, true>(self, point, slope, nullptr);
        std::copy(slope.data(), slope.data() + d, gradient + i * d);
      }
    } catch (const std::exception&) {
      stan::math::recover_memory();
      value[i] = steincheck::minus_infinity;
      if (gradient != nullptr) std::fill(gradient + i * d, gradient + (i + 1) * d, steincheck::nan);
    }
  }
}

// From n points of dimension d to the k parameters of each.
void steincheck_constrain(void* model, const double* points, long n, long d, double* out, long k) {
  auto& self = *static_cast<steincheck::model_base*>(model);
  auto rng = stan::services::util::create_rng(0, 1);
  Eigen::VectorXd point(d), values(k);
  for (long i = 0; i < n; ++i) {
    try {
      point = Eigen::Map<const Eigen::VectorXd>(points + i * d, d);
      self.write_array(rng, point, values, false, false, nullptr);
      std::copy(values.data(), values.data() + k, out + i * k);
    } catch (const std::exception&) {
      std::fill(out + i * k, out + (i + 1) * k, steincheck::nan);
    }
  }
}

// The way back; NaN for a row outside the support.
void steincheck_unconstrain(void* model, const double* values, long n, long d, double* out, long k) {
  auto& self = *static_cast<steincheck::model_base*>(model);
  Eigen::VectorXd row(k), point(d);
  for (long i = 0; i < n; ++i) {
    try {
      row = Eigen::Map<const Eigen::VectorXd>(values + i * k, k);
      self.unconstrain_array(row, point, nullptr);
      std::copy(point.data(), point.data() + d, out + i * d);
    } catch (const std::exception&) {
      std::fill(out + i * d, out + (i + 1) * d, steincheck::nan);
    }
  }
}

}  // extern "C"
