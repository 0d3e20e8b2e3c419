import { Panel, type PanelProps } from './panel.tsx'

export interface UsersProps extends PanelProps {
  /** What is open: `''`, `new`, or an id. */
  readonly item: string
}

/** The users: a list to search, and one of them to correct. */
export function Users({ item }: UsersProps) {
  return (
    <main>
      <Panel name="users" title="Users">
        {item}
      </Panel>
    </main>
  )
}
