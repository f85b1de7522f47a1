// What a dashboard is, for tsc: Grafana's own types, with the options of each panel that is in use.
// `test_dashboards.py` appends `const dashboard: Checked = {...}` for each file, so that unknown keys are errors too.

import type { Dashboard, FieldConfig, Panel, RowPanel } from '@grafana/schema';
import type * as stat from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type * as stateTimeline from '@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen';
import type * as table from '@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen';
import type * as timeSeries from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';

/** As JSON has it: enumerations of strings are strings. */
type Json<T> = T extends string
  ? `${T}`
  : T extends Array<infer Item>
    ? Array<Json<Item>>
    : T extends object
      ? { [Key in keyof T]: Json<T[Key]> }
      : T;

/** A query to Prometheus: what its data source reads of it. */
interface Query {
  datasource: { type: 'prometheus'; uid: '${datasource}' };
  editorMode: 'code';
  expr: string;
  legendFormat: string;
  refId: string;
  format?: 'table';
  instant?: true;
  range?: true;
}

interface Common extends Omit<Json<Panel>, 'type' | 'options' | 'fieldConfig' | 'targets'> {
  title: string;
  description: string;
  targets: [Query, ...Query[]];
}

interface Of<Kind extends string, Options, Custom> extends Common {
  type: Kind;
  options: Json<Options>;
  fieldConfig: {
    defaults: Omit<Json<FieldConfig>, 'custom'> & { unit: string; custom?: Json<Custom> };
    overrides: NonNullable<Json<Panel>['fieldConfig']>['overrides'];
  };
}

type Known =
  | Of<'stat', stat.Options, never>
  | Of<'state-timeline', stateTimeline.Options, stateTimeline.FieldConfig>
  | Of<'table', table.Options, Partial<table.FieldConfig> & { filterable?: boolean }>
  | Of<'timeseries', timeSeries.Options, timeSeries.FieldConfig>;

/** `definition` is what the editor shows of a query variable. */
type Variable = NonNullable<NonNullable<Json<Dashboard>['templating']>['list']>[number] & { definition?: string };

type Checked = Omit<Json<Dashboard>, 'panels' | 'templating'> & {
  uid: string;
  title: string;
  panels: Array<Known | Json<RowPanel>>;
  templating: { list: Variable[] };
};
