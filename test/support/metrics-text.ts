/** One line of metrics. */
export interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export interface Metrics {
  readonly samples: readonly Sample[]
  /** By the name of the metric. */
  readonly types: Readonly<Record<string, string>>
  readonly helps: Readonly<Record<string, string>>
  /** The value of the only sample that has these labels, perhaps among others; `undefined` if there is none. */
  read(name: string, labels?: Readonly<Record<string, string>>): number | undefined
  /** All samples of a name that have these labels. */
  all(name: string, labels?: Readonly<Record<string, string>>): readonly Sample[]
}

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{((?:,?[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*")*)\})? (\S+)$/

const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"/g

/** Reads the text format of Prometheus. Throws at a line that is none of it. */
export function parseMetrics(body: string): Metrics {
  const samples: Sample[] = []
  const types: Record<string, string> = {}
  const helps: Record<string, string> = {}
  if (!body.endsWith('\n')) throw new Error('the last line has no end')
  for (const line of body.slice(0, -1).split('\n')) {
    const [, kind, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? []
    if (kind === 'HELP') helps[name] = rest
    else if (kind === 'TYPE') types[name] = rest
    else if (line !== '') samples.push(parseSample(line))
  }
  const all: Metrics['all'] = (name, labels = {}) =>
    samples.filter(
      sample =>
        sample.name === name &&
        Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
    )
  return {
    ...{ samples, types, helps, all },
    read: (name, labels) => {
      const found = all(name, labels)
      if (found.length > 1) throw new Error(`${found.length} samples of ${name}`)
      return found[0]?.value
    },
  }
}

function parseSample(line: string): Sample {
  const [, name, list = '', text = ''] = SAMPLE.exec(line) ?? []
  const value = text === '+Inf' ? Number.POSITIVE_INFINITY : Number(text)
  if (name === undefined || Number.isNaN(value)) throw new Error(`no sample: ${line}`)
  const labels: Record<string, string> = {}
  for (const [, label = '', escaped = ''] of list.matchAll(LABEL)) {
    if (label in labels) throw new Error(`twice in ${line}: ${label}`)
    labels[label] = escaped.replace(/\\(.)/g, (_, char) => (char === 'n' ? '\n' : char))
  }
  return { name, labels, value }
}
