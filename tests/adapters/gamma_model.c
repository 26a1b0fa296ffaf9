/* BridgeStan's C interface for one model: mu ~ normal(0, 1), tau ~ gamma(3, 2). Its Python client is the real
   one; the functions it binds but this test does not call are stubs. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int bs_major_version = 2, bs_minor_version = 9, bs_patch_version = 0;
static char handle;

void* bs_model_construct(const char* data, unsigned seed, char** error) { return &handle; }
void bs_model_destruct(void* model) {}
void bs_free_error_msg(char* text) { free(text); }
int bs_set_print_callback(void* callback, char** error) { return 0; }
const char* bs_name(void* model) { return "gamma_model"; }
const char* bs_model_info(void* model) { return "written by hand"; }
int bs_param_num(void* model, bool tp, bool gq) { return 2; }
int bs_param_unc_num(void* model) { return 2; }
const char* bs_param_names(void* model, bool tp, bool gq) { return "mu,tau"; }
const char* bs_param_unc_names(void* model) { return "mu,tau"; }

static int fail(char** error, const char* text) {
  if (error) *error = strcpy(malloc(strlen(text) + 1), text);
  return -1;
}

int bs_param_constrain(void* model, bool tp, bool gq, const double* u, double* out, void* rng, char** error) {
  out[0] = u[0];
  out[1] = exp(u[1]);
  return 0;
}

int bs_param_unconstrain(void* model, const double* x, double* out, char** error) {
  if (!(x[1] > 0)) return fail(error, "lb_free: Lower bounded variable must be greater than 0");
  out[0] = x[0];
  out[1] = log(x[1]);
  return 0;
}

int bs_log_density_gradient(void* model, bool propto, bool jacobian, const double* u, double* value,
                            double* gradient, char** error) {
  if (!isfinite(u[0]) || !(u[1] < 700)) return fail(error, "normal_lpdf: Location parameter is inf");
  const double power = jacobian ? 3 : 2, tau = exp(u[1]);
  *value = -0.5 * u[0] * u[0] + power * u[1] - 2 * tau;
  gradient[0] = -u[0];
  gradient[1] = power - 2 * tau;
  return 0;
}

int bs_log_density(void* model, bool propto, bool jacobian, const double* u, double* value, char** error) {
  double gradient[2];
  return bs_log_density_gradient(model, propto, jacobian, u, value, gradient, error);
}

int bs_param_unconstrain_json(void) { return -1; }
int bs_param_initialize(void) { return -1; }
int bs_log_density_hessian(void) { return -1; }
int bs_log_density_hessian_vector_product(void) { return -1; }
void* bs_rng_construct(unsigned seed, char** error) { return &handle; }
void bs_rng_destruct(void* rng) {}
