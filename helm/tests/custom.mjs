// Reads a JSON array of custom resources and fails on the first that its operator's schema does not allow.
// `test_chart.py` runs it in the directory that has the packages.

import { readFileSync } from 'node:fs';
import { Certificate } from '@kubernetes-models/cert-manager/cert-manager.io/v1';
import { PrometheusRule, ServiceMonitor } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1';

const kinds = { Certificate, PrometheusRule, ServiceMonitor };

for (const object of JSON.parse(readFileSync(0, 'utf8'))) {
  new kinds[object.kind](object).validate();
  console.log(object.kind);
}
