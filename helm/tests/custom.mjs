// Reads a JSON array of custom resources and fails on the first that its operator's schema does not allow.
// `test_chart.py` and `test_gitops.py` run it in the directory that has the packages.

import { readFileSync } from 'node:fs';
import { Application } from '@kubernetes-models/argo-cd/argoproj.io/v1alpha1';
import { Certificate } from '@kubernetes-models/cert-manager/cert-manager.io/v1';
import { ExternalSecret } from '@kubernetes-models/external-secrets/external-secrets.io/v1';
import { HelmRelease } from '@kubernetes-models/flux-cd/helm.toolkit.fluxcd.io/v2';
import { HelmRepository } from '@kubernetes-models/flux-cd/source.toolkit.fluxcd.io/v1';
import { PrometheusRule, ServiceMonitor } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1';

const kinds = { Application, Certificate, ExternalSecret, HelmRelease, HelmRepository, PrometheusRule, ServiceMonitor };

for (const object of JSON.parse(readFileSync(0, 'utf8'))) {
  new kinds[object.kind](object).validate();
  console.log(object.kind);
}
